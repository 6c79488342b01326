"""The sampling options of the slots being decoded, and the state that they need between steps."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from upturn.config import SamplingSettings
from upturn.models.engine.backend import Ints
from upturn.models.engine.sampling.grammar import Grammars, Matcher
from upturn.models.engine.sampling.reshape import ReshapedRows, on_device, reshape
from upturn.models.model import GenerationRequest


class SlotOptions:
    """Options by slot. Slots without options cost nothing."""

    def __init__(self, slots: int, device: torch.device, grammars: Grammars | None) -> None:
        self._grammars = grammars
        self._matchers: dict[int, Matcher] = {}
        self._slots = slots
        self._device = device
        self._options: dict[int, SamplingSettings] = {}
        self._prompts: dict[int, tuple[int, ...]] = {}
        """Prompts of slots with a repetition penalty that are not in ``_seen_SV`` yet."""
        self._seen_SV: Tensor | None = None
        """True = the token is in the slot's context; None = no request had a repetition penalty yet."""

    def start(self, slot: int, request: GenerationRequest) -> None:
        """Takes the options of the slot's next request."""
        self._options.pop(slot, None)
        self._prompts.pop(slot, None)
        self._matchers.pop(slot, None)
        if request.sampling.is_reshaped or request.calls is not None:
            self._options[slot] = request.sampling
            if request.sampling.repetition_penalty != 1.0:
                self._prompts[slot] = request.prompt_ids
            if request.calls is not None:
                assert self._grammars is not None
                self._matchers[slot] = self._grammars.start(request.calls, request.stop_ids)
                for token in request.prompt_ids[len(request.prompt_ids) - request.drawn :]:
                    self._matchers[slot].push(token)  # of the interrupted call

    @property
    def needs_tokens(self) -> bool:
        """True if the next distribution of a slot depends on its last token, which the host must have read."""
        return bool(self._matchers)

    def take(self, slot: int, token: int) -> None:
        """Takes a token that the host read."""
        if slot in self._matchers:
            self._matchers[slot].push(token)

    def stop(self, slot: int) -> None:
        """Forgets the grammar of a slot that finished."""
        self._matchers.pop(slot, None)

    def reshape(
        self, slots_B: Ints, logits_BV: Tensor, temperatures_B: npt.NDArray[np.float64]
    ) -> ReshapedRows | None:
        """The rows with options; None = there are none."""
        if not self._options:
            return None
        rows = [row for row, slot in enumerate(slots_B.tolist()) if slot in self._options]
        if not rows:
            return None
        options = [self._options[int(slots_B[row])] for row in rows]
        rows_R = on_device(np.array(rows), self._device)
        seen_RV = None
        if any(option.repetition_penalty != 1.0 for option in options):
            seen_RV = self._seen(logits_BV.shape[1])[on_device(slots_B[rows], self._device)]
        temperatures: Any = temperatures_B[rows].tolist()
        logits_RV = logits_BV.index_select(0, rows_R)
        allowed_RV = self._allowed(slots_B[rows], logits_BV.shape[1])
        return ReshapedRows(rows_R, reshape(logits_RV, options, temperatures, seen=seen_RV, allowed=allowed_RV))

    def _allowed(self, slots_R: Ints, vocabulary: int) -> Tensor | None:
        """``(R, V)``; None = none of the rows has a grammar."""
        slots = slots_R.tolist()
        if not any(slot in self._matchers for slot in slots):
            return None
        every = np.ones(vocabulary, dtype=np.bool_)
        masks = [self._matchers[slot].allowed() if slot in self._matchers else every for slot in slots]
        return on_device(np.stack(masks), self._device)

    def see(self, slots_B: Tensor, ids_B: Tensor) -> None:
        """Adds a token to the context of each slot."""
        if self._seen_SV is not None:
            self._seen_SV[slots_B, ids_B] = True

    def _seen(self, vocabulary: int) -> Tensor:
        """``(S, V)``, with the prompts of the slots that were started."""
        if self._seen_SV is None:
            self._seen_SV = torch.zeros((self._slots, vocabulary), dtype=torch.bool, device=self._device)
        for slot, prompt in self._prompts.items():
            self._seen_SV[slot] = False
            self._seen_SV[slot, on_device(np.unique(np.array(prompt)), self._device)] = True
        self._prompts.clear()
        return self._seen_SV
