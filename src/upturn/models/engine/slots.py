"""The key-value cache of all slots, and the forward pass over it through unmodified ``transformers`` modules.

A slot is one row of a cache allocated once. Letters: S slots, C columns (one more than the longest context: the
last column takes what padding writes), B rows of a call, L new tokens a row, W columns read, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from upturn.errors import ModelError

Ints = npt.NDArray[np.int64]


class SlotCache(Cache):
    """Writes each row's new keys and values at that row's own columns; a call first sets ``rows`` and so on."""

    def __init__(self, slots: int, columns: int) -> None:
        super().__init__(layers=[])
        self._shape = (slots, columns)
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        self.rows_B: torch.Tensor = torch.empty(0)
        self.columns_BL: torch.Tensor = torch.empty(0)
        self.width = 0
        self.is_leading = False
        """True: the rows are slots 0 to B-1, which are read without copying."""

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_args: object,
        **_kwargs: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows' keys and values, columns 0 to W, the new ones included. Shapes (B, heads, L or W, dim)."""
        if layer_idx == len(self._keys):
            slots, columns = self._shape
            shape = (slots, key_states.shape[1], columns, key_states.shape[3])
            self._keys.append(key_states.new_zeros(shape))
            self._values.append(value_states.new_zeros(shape))
        return self._written(self._keys[layer_idx], key_states), self._written(
            self._values[layer_idx], value_states
        )

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        """Copies the first ``length`` columns of a slot to others."""
        for tensor in (*self._keys, *self._values):
            tensor[list(targets), :, :length] = tensor[source, :, :length]

    def _written(self, cached: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        if new.shape[2] == 1:
            cached[self.rows_B, :, self.columns_BL[:, 0]] = new[:, :, 0]
        else:
            cached[self.rows_B[:, None], :, self.columns_BL] = new.transpose(1, 2)
        if self.is_leading:
            return cached[: new.shape[0], :, : self.width]
        return cached[:, :, : self.width].index_select(0, self.rows_B)


class SlotModel:
    """A causal language model over slots. Rows are independent: none sees another's columns."""

    def __init__(self, model: PreTrainedModel, slots: int, max_length: int) -> None:
        """Raises ModelError for models whose attention is not plain causal attention over all tokens."""
        config = cast(Any, model.config)  # attributes differ between model families
        kinds = set(getattr(config, "layer_types", None) or ())
        if kinds - {"full_attention"} or (not kinds and getattr(config, "sliding_window", None) is not None):
            raise ModelError(
                f"LocalEngine serves models with full causal attention only, got layer types {sorted(kinds)!r}; "
                "serve this model behind an OpenAI-compatible endpoint"
            )
        self._model = model
        self._config = config
        self._backbone = cast(Any, model).get_decoder()
        self._head = cast(Any, model).get_output_embeddings()
        self._device = model.device
        self._size = (slots, max_length + 1)
        self.cache = SlotCache(*self._size)
        self._columns_C = torch.arange(max_length + 1, device=self._device)

    def clear(self) -> None:
        """Forgets everything cached."""
        self.cache = SlotCache(*self._size)

    def logits(self, ids_BL: Ints, rows_B: Ints, starts_B: Ints, counts_B: Ints) -> torch.Tensor:
        """(B, V): after each row's last new token.

        Row b puts ``counts_B[b]`` tokens (the rest of L is padding) at columns ``starts_B[b]`` and on; all columns
        before must hold its earlier tokens.
        """
        return cast(torch.Tensor, self._head(self._hidden(ids_BL, rows_B, starts_B, counts_B)))

    def decode(self, ids_B: Ints, starts_B: Ints, live: Ints) -> torch.Tensor:
        """(len(live), V): one new token for each of the leading B slots, logits for the slots ``live`` only."""
        rows_B = np.arange(len(ids_B))
        hidden = self._hidden(ids_B[:, None], rows_B, starts_B, np.ones_like(ids_B), live=live)
        return cast(torch.Tensor, self._head(hidden))

    def _hidden(
        self, ids_BL: Ints, rows_B: Ints, starts_B: Ints, counts_B: Ints, *, live: Ints | None = None
    ) -> torch.Tensor:
        count, length = ids_BL.shape
        columns_BL = np.minimum(starts_B[:, None] + np.arange(length), self._size[1] - 1)
        cache = self.cache
        last = starts_B + counts_B if live is None else (starts_B + 1)[live]
        cache.width = int(last.max())
        cache.is_leading = bool(rows_B[0] == 0 and (np.diff(rows_B) == 1).all())
        cache.rows_B = self._tensor(rows_B)
        cache.columns_BL = self._tensor(columns_BL)
        is_seen = self._columns_C[: cache.width] <= cache.columns_BL[:, :, None]
        hidden_BLd = self._run(self._tensor(ids_BL), cache.columns_BL, is_seen[:, None])
        if length > 1:
            return hidden_BLd[torch.arange(count, device=self._device), self._tensor(counts_B - 1)]
        return hidden_BLd[:, 0] if live is None else hidden_BLd[self._tensor(live), 0]

    def _run(self, ids_BL: torch.Tensor, positions_BL: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        attention = self._config._attn_implementation
        self._config._attn_implementation = "sdpa"  # a trainer of the same model may use another
        try:
            output = self._backbone(
                input_ids=ids_BL,
                attention_mask=mask,
                position_ids=positions_BL,
                past_key_values=self.cache,
                use_cache=True,
            )
        finally:
            self._config._attn_implementation = attention
        return cast(torch.Tensor, output.last_hidden_state)

    def _tensor(self, array: Ints) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)
