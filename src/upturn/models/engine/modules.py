"""A ``Backend`` that runs the ``transformers`` modules of any causal language model over one cache for all slots.

The model makes its masks itself, one for each kind of layer, such as sliding windows and chunks: it asks the
registry of mask functions of transformers for them, where ours evaluates the model's rule at the position of each
row's tokens. Caps of scores and sinks are computed as the model passes them to the registry of attention functions.
A slot is a row of the preallocated cache. Letters: S slots, C columns (one more than the longest context: the last
column absorbs writes of padding), B rows of a call, L new tokens a row, W columns read, V vocabulary.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from upturn.models.engine.backend import Block, Ints
from upturn.models.engine.head import backbone_of, head_of
from upturn.models.engine.sampling import on_device

ATTENTION = "upturn_slots"
"""The name of the engine's attention and masks in the registries of transformers."""
CACHE_NAMES = ("past_key_values", "cache_params")
"""How the models of transformers name the argument for their cache."""


class SlotCache(Cache):
    """Writes each row's new keys and values at that row's columns; set ``rows_B`` and the like before a call."""

    def __init__(self, slots: int, columns: int) -> None:
        super().__init__(layers=[])
        self._shape = (slots, columns)
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """Keys and values of each layer with attention, ``(S, heads, C, dim)``."""
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
        if layer_idx not in self._layers:
            self._layers[layer_idx] = (self._empty(key_states), self._empty(value_states))
        if len(self._layers[layer_idx][0]) < self.rows:
            self._grow(layer_idx)
        key, value = self._layers[layer_idx]
        return self._write(key, key_states), self._write(value, value_states)

    def get_mask_sizes(self, _query_length: int, _layer_idx: int = 0) -> tuple[int, int]:
        """The columns that are read, from the first on."""
        return self.width, 0

    def get_query_offset(self, _layer_idx: int = 0) -> Any:
        """``(B, L)``: the position of each query, where the caches of transformers give the first one's only."""
        return self.columns_BL

    def finish(self, live: torch.Tensor | None) -> None:
        """Called after a pass; ``live``: the rows whose result is used, None = all."""

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        """Copies the first ``length`` columns of a slot to others."""
        self.reserve(max(targets, default=0) + 1)
        for layer, tensors in self._layers.items():
            if len(tensors[0]) < self.rows:
                self._grow(layer)
            for tensor in self._layers[layer]:
                tensor[list(targets), :, :length] = tensor[source, :, :length]

    def reserve(self, rows: int) -> None:
        """Makes room for that many slots, at least doubled each time, when they are next written."""
        if rows > self.rows:
            self.rows = min(self._shape[0], max(rows, 2 * self.rows))

    def _grow(self, layer: int) -> None:
        key, value = (
            torch.cat([old, old.new_zeros((self.rows - len(old), *old.shape[1:]))]) for old in self._layers[layer]
        )
        self._layers[layer] = (key, value)

    def forget(self) -> None:
        """Overwrites everything with 0: masked values must be finite."""
        for tensors in self._layers.values():
            for tensor in tensors:
                tensor.zero_()

    def _empty(self, new: torch.Tensor) -> torch.Tensor:
        return new.new_zeros((0, new.shape[1], self._shape[1], new.shape[3]))

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

    def __init__(
        self, model: PreTrainedModel, slots: int, max_length: int, *, cache: SlotCache | None = None
    ) -> None:
        """``cache``: of that many slots, with one column more than the longest context; None = a ``SlotCache``."""
        self._model = model
        self._backbone = backbone_of(model)
        self._config = self._backbone.config
        with torch.inference_mode():
            self._head = head_of(model)
        self._device = model.device
        self._columns = max_length + 1
        self._cache = SlotCache(slots, self._columns) if cache is None else cache
        arguments = inspect.signature(self._backbone.forward).parameters
        self._cache_name = next((name for name in CACHE_NAMES if name in arguments), CACHE_NAMES[0])

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
        slots_B = self._tensor(block.slots)
        ids_S = torch.zeros((count, 1), dtype=torch.int64, device=self._device)
        ids_S[slots_B, 0] = self._ids(block)
        columns_S = np.full((count, 1), self._columns - 1, dtype=np.int64)
        columns_S[block.slots, 0] = block.starts
        width = int(block.starts.max()) + 1
        hidden = self._hidden(ids_S, columns_S, np.arange(count), width, slots_B)
        return cast(torch.Tensor, self._head(hidden[slots_B, 0]))

    def _prefill(self, block: Block) -> torch.Tensor:
        count, length = len(block.slots), int(block.counts.max())
        is_real = np.arange(length) < block.counts[:, None]
        ids_BL = torch.zeros((count, length), dtype=torch.int64, device=self._device)
        ids_BL.view(-1)[self._tensor(np.flatnonzero(is_real))] = self._ids(block)
        columns_BL = np.where(is_real, block.starts[:, None] + np.arange(length), self._columns - 1)
        width = int((block.starts + block.counts).max())
        hidden_BLd = self._hidden(ids_BL, columns_BL, block.slots, width)
        last = self._tensor(block.counts - 1)
        return cast(torch.Tensor, self._head(hidden_BLd[torch.arange(count, device=self._device), last]))

    def _hidden(  # noqa: PLR0917  # one pass has that many parts
        self, ids_BL: torch.Tensor, columns_BL: Ints, rows_B: Ints, width: int, live: torch.Tensor | None = None
    ) -> torch.Tensor:
        cache, config = self._cache, self._config
        cache.width = width
        cache.reserve(int(rows_B.max()) + 1)
        cache.is_leading = bool((rows_B == np.arange(len(rows_B))).all())
        cache.rows_B = self._tensor(rows_B)
        cache.columns_BL = self._tensor(columns_BL)
        attention = config._attn_implementation
        config._attn_implementation = ATTENTION
        try:
            output = self._backbone(
                input_ids=ids_BL,
                position_ids=cache.columns_BL,
                use_cache=True,
                **{self._cache_name: cache},
            )
            cache.finish(live)
        finally:
            config._attn_implementation = attention
        return cast(torch.Tensor, output.last_hidden_state)

    def _ids(self, block: Block) -> torch.Tensor:
        return torch.as_tensor(block.ids, device=self._device)

    def _tensor(self, array: Ints) -> torch.Tensor:
        return on_device(array, self._device)


def _mask(  # the registry's signature
    *, kv_length: int, q_offset: torch.Tensor, mask_function: Callable[..., torch.Tensor], **_arguments: object
) -> torch.Tensor:
    """``(B, 1, L, W)``: True = visible. ``q_offset``: see ``SlotCache.get_query_offset``."""
    positions = q_offset.clamp(max=kv_length - 1)  # padding, too, must see a column within its window
    rows = torch.arange(len(q_offset), device=q_offset.device)[:, None, None, None]
    head = torch.zeros((), dtype=torch.int64, device=q_offset.device)
    columns = torch.arange(kv_length, device=q_offset.device)
    return mask_function(rows, head, positions[:, None, :, None], columns).expand(-1, 1, -1, kv_length)


def _attend(  # noqa: PLR0917  # the registry's signature
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **arguments: Any,  # open-ended, as in transformers
) -> tuple[torch.Tensor, None]:
    """``(B, L, heads, dim)``. Called by the registry in every layer with attention."""
    cap, sinks = arguments.pop("softcap", None), arguments.pop("s_aux", None)
    if cap is None and sinks is None:
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **arguments)
        return output, None
    groups = query.shape[1] // key.shape[1]
    keys, values = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = query @ keys.transpose(2, 3) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if cap is not None:
        scores = torch.tanh(scores / cap) * cap
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    if sinks is not None:  # a score of each head for which there is no value (arXiv 2309.17453)
        scores = torch.cat([scores, sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)], dim=-1)
    shares = scores.softmax(-1, dtype=torch.float32).to(query.dtype)[..., : keys.shape[2]]
    return (shares @ values).transpose(1, 2).contiguous(), None


ALL_ATTENTION_FUNCTIONS.register(ATTENTION, _attend)
ALL_MASK_ATTENTION_FUNCTIONS.register(ATTENTION, _mask)
