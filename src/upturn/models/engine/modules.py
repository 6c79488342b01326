"""A ``Backend`` that runs the ``transformers`` modules of any causal language model over one cache for all slots.

A slot is a row of the preallocated cache. Letters: S slots, C columns (one more than the longest context: the
last column absorbs writes of padding), B rows of a call, L new tokens a row, W columns read, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from upturn.models.engine.backend import Block, Ints


class SlotCache(Cache):
    """Writes each row's new keys and values at that row's columns; set ``rows_B`` and the like before a call."""

    def __init__(self, slots: int, columns: int) -> None:
        super().__init__(layers=[])
        self._shape = (slots, columns)
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        self.rows_B: torch.Tensor = torch.empty(0)
        self.columns_BL: torch.Tensor = torch.empty(0)
        self.width = 0
        self.rows = 0
        """Slots that hold memory: up to the highest one used so far."""
        self.is_leading = False
        """True = the rows are slots 0 to B-1, which are read without copying."""

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
            shape = (0, key_states.shape[1], self._shape[1], key_states.shape[3])
            self._keys.append(key_states.new_zeros(shape))
            self._values.append(value_states.new_zeros(shape))
        if len(self._keys[layer_idx]) < self.rows:
            self._grow(layer_idx)
        key, value = self._keys[layer_idx], self._values[layer_idx]
        return self._write(key, key_states), self._write(value, value_states)

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        """Copies the first ``length`` columns of a slot to others."""
        self.reserve(max(targets, default=0) + 1)
        for layer, keys in enumerate(self._keys):
            if len(keys) < self.rows:
                self._grow(layer)
        for tensor in (*self._keys, *self._values):
            tensor[list(targets), :, :length] = tensor[source, :, :length]

    def reserve(self, rows: int) -> None:
        """Makes room for that many slots, at least doubled each time, when they are next written."""
        if rows > self.rows:
            self.rows = min(self._shape[0], max(rows, 2 * self.rows))

    def _grow(self, layer: int) -> None:
        for tensors in (self._keys, self._values):
            old = tensors[layer]
            tensors[layer] = torch.cat([old, old.new_zeros((self.rows - len(old), *old.shape[1:]))])

    def forget(self) -> None:
        """Overwrites everything with 0: masked values must be finite."""
        for tensor in (*self._keys, *self._values):
            tensor.zero_()

    def _write(self, cached: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        if new.shape[2] == 1:
            cached[self.rows_B, :, self.columns_BL[:, 0]] = new[:, :, 0]
        else:
            cached[self.rows_B[:, None], :, self.columns_BL] = new.transpose(1, 2)
        if self.is_leading:
            return cached[: new.shape[0], :, : self.width]
        return cached[:, :, : self.width].index_select(0, self.rows_B)


class ModuleModel:
    """See ``Backend``. Uses the model's weights without copies."""

    def __init__(self, model: PreTrainedModel, slots: int, max_length: int) -> None:
        self._model = model
        self._config = cast(Any, model.config)  # attributes differ between model families
        self._backbone = cast(Any, model).get_decoder()
        self._head = cast(Any, model).get_output_embeddings()
        self._device = model.device
        self._columns = max_length + 1
        self._cache = SlotCache(slots, self._columns)
        self._columns_C = torch.arange(self._columns, device=self._device)

    def refresh(self) -> None:
        """See ``Backend``: nothing is copied."""

    def clear(self) -> None:
        """See ``Backend``: old keys and values are overwritten before they are read again."""

    def wipe(self) -> None:
        """See ``Backend``."""
        self._cache.forget()

    def cut(self, slot: int, length: int) -> None:
        """See ``Backend``: the rest is overwritten before it is read again."""

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        """See ``Backend``."""
        self._cache.copy(source, targets, length)

    def forward(self, blocks: Sequence[Block]) -> torch.Tensor:
        """See ``Backend``: one pass for each block."""
        was_training = self._model.training
        if was_training:
            self._model.train(False)
        try:
            logits = [
                self._decode(block) if (block.counts == 1).all() else self._prefill(block) for block in blocks
            ]
        finally:
            if was_training:
                self._model.train()
        return logits[0] if len(logits) == 1 else torch.cat(logits)

    def _decode(self, block: Block) -> torch.Tensor:
        """Computing unused rows among the leading slots is cheaper than copying the live ones."""
        count = int(block.slots.max()) + 1
        if 2 * len(block.slots) <= count:
            return self._prefill(block)
        ids_S, columns_S = np.zeros((count, 1), dtype=np.int64), np.zeros((count, 1), dtype=np.int64)
        columns_S[:] = self._columns - 1
        ids_S[block.slots, 0], columns_S[block.slots, 0] = block.ids, block.starts
        width = int(block.starts.max()) + 1
        hidden = self._hidden(ids_S, columns_S, np.arange(count), width)
        return cast(torch.Tensor, self._head(hidden[self._tensor(block.slots), 0]))

    def _prefill(self, block: Block) -> torch.Tensor:
        count, length = len(block.slots), int(block.counts.max())
        is_real = np.arange(length) < block.counts[:, None]
        ids_BL = np.zeros((count, length), dtype=np.int64)
        ids_BL[is_real] = block.ids
        columns_BL = np.where(is_real, block.starts[:, None] + np.arange(length), self._columns - 1)
        width = int((block.starts + block.counts).max())
        hidden_BLd = self._hidden(ids_BL, columns_BL, block.slots, width)
        last = self._tensor(block.counts - 1)
        return cast(torch.Tensor, self._head(hidden_BLd[torch.arange(count, device=self._device), last]))

    def _hidden(self, ids_BL: Ints, columns_BL: Ints, rows_B: Ints, width: int) -> torch.Tensor:
        cache, config = self._cache, self._config
        cache.width = width
        cache.reserve(int(rows_B.max()) + 1)
        cache.is_leading = bool((rows_B == np.arange(len(rows_B))).all())
        cache.rows_B = self._tensor(rows_B)
        cache.columns_BL = self._tensor(columns_BL)
        is_visible = self._columns_C[:width] <= cache.columns_BL[:, :, None]
        attention = config._attn_implementation
        config._attn_implementation = "sdpa"  # a trainer of the same model may set another
        try:
            output = self._backbone(
                input_ids=self._tensor(ids_BL),
                attention_mask=is_visible[:, None],
                position_ids=cache.columns_BL,
                past_key_values=cache,
                use_cache=True,
            )
        finally:
            config._attn_implementation = attention
        return cast(torch.Tensor, output.last_hidden_state)

    def _tensor(self, array: Ints) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)
