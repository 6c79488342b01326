"""A ``Backend`` for models with recurrent layers or convolutions: their modules, with a state for each slot.

The state of a layer is that after a slot's last token. It can be continued and copied, but not cut: a shorter
prefix is computed again from the tokens, which are kept. Rows of a pass must either all start or all continue, by
equally many tokens, because padding would enter the state; other rows are computed in separate passes.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache, LinearAttentionCacheLayerMixin

from upturn.models.engine.backend import Block, Ints
from upturn.models.engine.modules import ModuleModel, SlotCache

_Key: TypeAlias = tuple[Literal["convolution", "recurrence"], int, int]
"""Kind, layer, and number of the state in its layer."""


def has_states(model: PreTrainedModel) -> bool:
    """Whether layers of the model have a state other than keys and values, as transformers' cache classes say."""
    layers = DynamicCache(config=model.config.get_text_config(decoder=True)).layers
    return any(isinstance(layer, LinearAttentionCacheLayerMixin) for layer in layers)


class StateCache(SlotCache):
    """A ``SlotCache`` with the states of its slots. The models' code reads and updates them by these names."""

    def __init__(self, slots: int, columns: int) -> None:
        super().__init__(slots, columns)
        self.is_start = True
        """Whether the rows of the pass have no state yet; set before a pass."""
        self._stored: dict[_Key, Tensor] = {}
        """``(S, …)``"""
        self._current: dict[_Key, Tensor] = {}
        """``(B, …)``: those of the rows of this pass; the models may change them in place."""

    def has_previous_state(self, layer_idx: int | None = None, state_idx: int | None = None) -> bool:  # noqa: ARG002
        """Whether the rows continue."""
        return not self.is_start

    def is_recording_past(self, layer_idx: int) -> bool:  # noqa: ARG002
        """False: earlier states are not kept."""
        return False

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        """``(B, channels, kernel)``: the last inputs of a convolution; None at the start."""
        return self._read(("convolution", layer_idx, state_idx))

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        """``(B, …)``: the state of a recurrence; None at the start."""
        return self._read(("recurrence", layer_idx, state_idx))

    def update_conv_state(  # the signature of transformers
        self,
        conv_states: Tensor,
        layer_idx: int,
        state_idx: int = 0,
        conv_kernel_size: int | None = None,
        **_arguments: object,
    ) -> Tensor:
        """``(B, channels, …)``: the earlier inputs, zeros at the start, then the new ones; the last are kept."""
        before = self.get_conv_state(layer_idx, state_idx)
        if before is not None:
            inputs = torch.cat([before, conv_states], dim=-1)
            kernel = before.shape[-1]
        else:
            kernel = conv_states.shape[-1] if conv_kernel_size is None else conv_kernel_size
            missing = max(0, kernel - conv_states.shape[-1])
            inputs = torch.nn.functional.pad(conv_states, (missing, 0))
        self._current["convolution", layer_idx, state_idx] = inputs[..., -kernel:]
        return inputs

    def update_recurrent_state(
        self, recurrent_states: Tensor, layer_idx: int, state_idx: int = 0, **_arguments: object
    ) -> Tensor:
        """The new state itself, which is kept."""
        self._current["recurrence", layer_idx, state_idx] = recurrent_states
        return recurrent_states

    def finish(self, live: Tensor | None) -> None:
        """Stores the states of the rows of a pass; ``live``: of these rows only, None = of all."""
        slots = self.rows_B if live is None else self.rows_B[live]
        for key, state in self._current.items():
            if key not in self._stored:
                self._stored[key] = state.new_zeros((self._shape[0], *state.shape[1:]))
            self._stored[key][slots] = state if live is None else state[live]
        self._current = {}

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        """As for ``SlotCache``, and the states as they are."""
        super().copy(source, targets, length)
        for state in self._stored.values():
            state[list(targets)] = state[source].clone()

    def forget(self) -> None:
        """As for ``SlotCache``."""
        super().forget()
        self._stored, self._current = {}, {}

    def _read(self, key: _Key) -> Tensor | None:
        if key not in self._current and not self.is_start:
            self._current[key] = self._stored[key][self.rows_B]
        return self._current.get(key)


class RecurrentModel:
    """See ``Backend``. Uses the model's weights without copies."""

    def __init__(
        self, model: PreTrainedModel, slots: int, max_length: int, *, is_continued_by_many: bool = True
    ) -> None:
        """``is_continued_by_many``: False = the model's code continues a state by one token only, as Mamba's."""
        self._is_continued_by_many = is_continued_by_many
        self._cache = StateCache(slots, max_length + 1)
        self._modules = ModuleModel(model, slots, max_length, cache=self._cache)
        self._ids_SC: Ints = np.zeros((slots, max_length), dtype=np.int64)
        """The tokens of each slot."""
        self._lengths_S: Ints = np.zeros(slots, dtype=np.int64)
        """The tokens after which the slot's states are; 0 = it has none."""

    def refresh(self) -> None:
        """See ``Backend``: nothing is copied."""

    def clear(self) -> None:
        """See ``Backend``."""
        self._lengths_S[:] = 0

    def wipe(self) -> None:
        """See ``Backend``."""
        self.clear()
        self._modules.wipe()

    def cut(self, slot: int, length: int) -> None:
        """See ``Backend``: states of more tokens are dropped."""
        if self._lengths_S[slot] != length:
            self._lengths_S[slot] = 0

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        """See ``Backend``."""
        self._modules.copy(source, targets, length)
        slots = list(targets)
        self._ids_SC[slots, :length] = self._ids_SC[source, :length]
        self._lengths_S[slots] = length if self._lengths_S[source] == length else 0

    def forward(self, blocks: Sequence[Block]) -> Tensor:
        """See ``Backend``: one pass for all rows that start, and for all that continue, by equally many tokens."""
        slots_N = np.concatenate([block.slots for block in blocks])
        stops_N = np.concatenate([block.starts + block.counts for block in blocks])
        for block in blocks:
            self._hold(block)
        starts_N = self._lengths_S[slots_N]
        passes = np.stack([starts_N > 0, stops_N - starts_N], axis=1)
        logits: Tensor | None = None
        for is_continued, count in np.unique(passes, axis=0).tolist():
            rows = np.flatnonzero((passes == (is_continued, count)).all(axis=1))
            slots_B, starts_B = slots_N[rows], starts_N[rows]
            ids = self._ids_SC[slots_B[:, None], starts_B[:, None] + np.arange(count)]
            self._cache.is_start = not is_continued
            part = self._modules.forward([Block(slots_B, starts_B, np.full_like(slots_B, count), ids.ravel())])
            if logits is None:
                logits = part.new_empty((len(slots_N), part.shape[1]))
            logits[torch.from_numpy(rows).to(part.device)] = part
        assert logits is not None  # a pass has rows
        self._lengths_S[slots_N] = stops_N
        return logits

    def _hold(self, block: Block) -> None:
        """Records the new tokens; a state that is not after the tokens before them, or unusable, is dropped."""
        ends_B = np.cumsum(block.counts)
        rows = zip(block.slots.tolist(), block.starts.tolist(), block.counts.tolist(), ends_B.tolist(), strict=True)
        for slot, start, count, end in rows:
            self._ids_SC[slot, start : start + count] = block.ids[end - count : end]
            self.cut(slot, start if count == 1 or self._is_continued_by_many else 0)
