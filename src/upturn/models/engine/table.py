"""Which session holds which slot, and which tokens each slot's cache holds. Pure bookkeeping, no tensors."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass
class Counters:
    """What an engine did since it was made."""

    prefilled_tokens: int = 0
    """Prompt tokens that were computed."""
    reused_tokens: int = 0
    """Prompt tokens found in the session's own slot."""
    shared_tokens: int = 0
    """Prompt tokens found in another session's slot."""
    written_tokens: int = 0
    evictions: int = 0
    """Idle sessions whose slot was given away; they are prefilled again when they come back."""
    forwards: int = 0
    """Passes through the model."""


class Prefix(NamedTuple):
    """The longest cached beginning of a prompt."""

    slot: int
    length: int


class SlotTable:
    """Slots, their sessions and their tokens."""

    def __init__(self, slots: int, max_length: int) -> None:
        self.ids_SC: Ints = np.zeros((slots, max_length + 1), dtype=np.int64)
        self.lengths_S: Ints = np.zeros(slots, dtype=np.int64)
        """Tokens whose keys and values are cached; kept after a release, for other sessions to share."""
        self._owners: list[str | None] = [None] * slots
        self._slots: dict[str, int] = {}
        self._used_S: Ints = np.zeros(slots, dtype=np.int64)
        self._clock = 0

    @property
    def slots(self) -> int:
        """How many there are."""
        return len(self._owners)

    def slot_of(self, session: str) -> int | None:
        """The session's slot; None = it has none (any more)."""
        return self._slots.get(session)

    def claim(self, session: str, kept: set[int]) -> tuple[int, bool] | None:
        """A slot for a new session, and whether an idle one lost it; None when all are in ``kept``.

        Free slots first, the lowest first, then the least recently used.
        """
        free = [slot for slot, owner in enumerate(self._owners) if owner is None and slot not in kept]
        idle = [slot for slot in range(len(self._owners)) if slot not in kept]
        if not idle:
            return None
        slot = free[0] if free else min(idle, key=lambda each: (int(self._used_S[each]), each))
        previous = self._owners[slot]
        if previous is not None:
            del self._slots[previous]
        self._owners[slot] = session
        self._slots[session] = slot
        return slot, previous is not None

    def touch(self, slot: int) -> None:
        """Marks the slot as the most recently used."""
        self._clock += 1
        self._used_S[slot] = self._clock

    def release(self, session: str) -> None:
        """Frees the session's slot; unknown sessions are fine."""
        slot = self._slots.pop(session, None)
        if slot is not None:
            self._owners[slot] = None

    def own_prefix(self, slot: int, prompt: Ints) -> int:
        """How many tokens of the prompt's beginning the slot holds."""
        length = min(int(self.lengths_S[slot]), len(prompt))
        differing = np.flatnonzero(self.ids_SC[slot, :length] != prompt[:length])
        return int(differing[0]) if len(differing) else length

    def best_prefix(self, prompt: Ints, at_least: int) -> Prefix | None:
        """The slot that holds most of the prompt's beginning, lowest of equals; None = less than ``at_least``."""
        if len(prompt) < at_least:
            return None
        begins = (self.ids_SC[:, :at_least] == prompt[:at_least]).all(axis=1) & (self.lengths_S >= at_least)
        slots = np.flatnonzero(begins)
        if len(slots) == 0:
            return None
        columns = np.arange(len(prompt))
        is_same = (self.ids_SC[slots, : len(prompt)] == prompt) & (columns < self.lengths_S[slots, None])
        held = np.where(is_same.all(axis=1), len(prompt), is_same.argmin(axis=1))
        best = int(held.argmax())
        return Prefix(int(slots[best]), int(held[best]))

    def hold(self, slot: int, tokens: Ints) -> None:
        """Records that the slot's cache holds exactly these tokens."""
        self.ids_SC[slot, : len(tokens)] = tokens
        self.lengths_S[slot] = len(tokens)

    def extend(self, slots_B: Ints, ids_B: Ints) -> None:
        """Records that each slot's cache holds one token more."""
        self.ids_SC[slots_B, self.lengths_S[slots_B]] = ids_B
        self.lengths_S[slots_B] += 1

    def clear(self) -> None:
        """Forgets all tokens and sessions."""
        self.lengths_S[:] = 0
        self._owners = [None] * len(self._owners)
        self._slots.clear()
