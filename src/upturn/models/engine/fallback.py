"""A ``Backend`` for whatever ``transformers`` can run: the model's forward pass with the cache of ``generate``.

One sequence at a time, without batching, so it is slower than the others. A slot holds a cache of its own. A cache
that cannot be cut to a shorter prefix, such as a recurrent state or a window that has moved on, is dropped, and the
prefix is computed again when it is needed. How far a cache can be used differs between models; the three ways are
tried from the fastest on, and ``verification`` takes the first that is exact.
"""

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicCache

from upturn.errors import ModelError
from upturn.models.engine.adapter import unwrap
from upturn.models.engine.backend import Block
from upturn.models.engine.modules import CACHE_NAMES

Reuse: TypeAlias = Literal["any", "one", "none"]
"""What may follow a cached prefix: any number of tokens; one token, as in ``generate``; ``none`` = no cache."""
REUSES: tuple[Reuse, ...] = ("any", "one", "none")


@dataclass
class _Slot:
    tokens: list[int] = field(default_factory=list)
    cache: Cache | None = None
    """Of all tokens, or of the first ``cached``."""
    cached: int = 0


class FallbackModel:
    """See ``Backend``. Uses the model's weights without copies."""

    def __init__(self, model: PreTrainedModel, slots: int, reuse: Reuse) -> None:
        """Raises ModelError for ``reuse`` other than ``none`` where the model takes no cache of transformers."""
        self._model = cast(Any, unwrap(model))
        arguments = inspect.signature(self._model.forward).parameters
        self._cache_name = next((name for name in CACHE_NAMES if name in arguments), None)
        if reuse != "none" and (self._cache_name is None or not self._model._supports_default_dynamic_cache()):
            raise ModelError("it takes no cache")
        self._reuse: Reuse = reuse
        self._last_only: dict[str, int] = {"logits_to_keep": 1} if "logits_to_keep" in arguments else {}
        self._slots = [_Slot() for _ in range(slots)]

    def refresh(self) -> None:
        """See ``Backend``: nothing is copied."""

    def clear(self) -> None:
        """See ``Backend``."""
        self._slots = [_Slot() for _ in self._slots]

    def wipe(self) -> None:
        """See ``Backend``."""
        self.clear()

    def cut(self, slot: int, length: int) -> None:
        """See ``Backend``."""
        self._slots[slot] = _shortened(self._slots[slot], length)

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        """See ``Backend``."""
        for target in targets:
            self._slots[target] = _shortened(copy.deepcopy(self._slots[source]), length)

    def forward(self, blocks: Sequence[Block]) -> torch.Tensor:
        """See ``Backend``: one pass for each row."""
        was_training = self._model.training
        self._model.train(False)
        try:
            rows = []
            for block in blocks:
                ends = block.counts.cumsum().tolist()
                for slot, count, end in zip(block.slots.tolist(), block.counts.tolist(), ends, strict=True):
                    rows.append(self._extend(self._slots[slot], block.ids[end - count : end].tolist()))
        finally:
            self._model.train(was_training)
        return torch.stack(rows)

    def _extend(self, slot: _Slot, new: list[int]) -> torch.Tensor:
        """``(V,)``: logits after the slot's tokens and the new ones."""
        slot.tokens += new
        total = len(slot.tokens)
        if self._reuse == "none" or (self._reuse == "one" and total - slot.cached > 1):
            slot.cache, slot.cached = None, 0
        if self._reuse != "none" and slot.cache is None:
            slot.cache = DynamicCache(config=self._model.config.get_text_config(decoder=True))
        arguments: dict[str, Any] = dict(self._last_only)
        if slot.cache is not None and self._cache_name is not None:
            arguments[self._cache_name] = slot.cache
        ids = torch.tensor([slot.tokens[slot.cached :]], device=self._model.device)
        output: Any = self._model(input_ids=ids, use_cache=slot.cache is not None, **arguments)
        slot.cached = total if slot.cache is not None else 0
        logits: torch.Tensor = output.logits[0, -1]
        return logits


def _shortened(slot: _Slot, length: int) -> _Slot:
    """The slot's first tokens, with its cache where that can be cut."""
    tokens, surplus = slot.tokens[:length], slot.cached - length
    if surplus <= 0:
        return _Slot(tokens, slot.cache, slot.cached)
    if length and slot.cache is not None and slot.cache.is_croppable:
        try:
            slot.cache.crop(-surplus)
        except RuntimeError:  # a window has moved on
            return _Slot(tokens)
        return _Slot(tokens, slot.cache, length)
    return _Slot(tokens)
