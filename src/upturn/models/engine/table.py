"""The assignment of slots to sessions, and the tokens cached in each slot. No tensors."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass
class Counters:
    """An engine's statistics since its construction."""

    prefilled_tokens: int = 0
    """Prompt tokens that were computed."""
    reused_tokens: int = 0
    """Prompt tokens reused from the session's own slot."""
    shared_tokens: int = 0
    """Prompt tokens copied from another session's slot."""
    written_tokens: int = 0
    evictions: int = 0
    """Idle sessions that lost their slot; they are prefilled again on their next request."""
    forwards: int = 0
    """Passes through the model."""


class Prefix(NamedTuple):
    """The longest cached prefix of a prompt."""

    slot: int
    length: int


class SlotTable:
    """Slots, their sessions and their tokens."""

    def __init__(self, slots: int, max_length: int) -> None:
        self.ids_SC: Ints = np.zeros((slots, max_length + 1), dtype=np.int64)
        self.lengths_S: Ints = np.zeros(slots, dtype=np.int64)
        """Tokens whose keys and values are cached; they remain after a release, for other sessions to share."""
        self._owners: list[str | None] = [None] * slots
        self._slots: dict[str, int] = {}
        self._used_S: Ints = np.zeros(slots, dtype=np.int64)
        self._clock = 0

    @property
    def slots(self) -> int:
        """Number of slots."""
        return len(self._owners)

    def slot_of(self, session: str) -> int | None:
        """The session's slot; None = it has none."""
        return self._slots.get(session)

    def claim(self, session: str, reserved: set[int]) -> tuple[int, bool] | None:
        """A slot for a new session, and whether an idle session lost it; None when all are in ``reserved``.

        Free slots first, the lowest first, then the least recently used.
        """
        idle = [slot for slot in range(self.slots) if slot not in reserved]
        if not idle:
            return None
        free = [slot for slot in idle if self._owners[slot] is None]
        slot = free[0] if free else min(idle, key=lambda index: (int(self._used_S[index]), index))
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
        """Frees the session's slot; unknown sessions are ignored."""
        slot = self._slots.pop(session, None)
        if slot is not None:
            self._owners[slot] = None

    def own_prefix(self, slot: int, prompt: Ints) -> int:
        """Length of the prompt's prefix cached in the slot."""
        length = min(int(self.lengths_S[slot]), len(prompt))
        differing = np.flatnonzero(self.ids_SC[slot, :length] != prompt[:length])
        return int(differing[0]) if len(differing) else length

    def best_prefix(self, prompt: Ints, at_least: int) -> Prefix | None:
        """The lowest slot with the longest cached prefix of the prompt; None = shorter than ``at_least``."""
        if len(prompt) < at_least:
            return None
        has_prefix = (self.ids_SC[:, :at_least] == prompt[:at_least]).all(axis=1) & (self.lengths_S >= at_least)
        slots = np.flatnonzero(has_prefix)
        if len(slots) == 0:
            return None
        columns = np.arange(len(prompt))
        is_same = (self.ids_SC[slots, : len(prompt)] == prompt) & (columns < self.lengths_S[slots, None])
        cached = np.where(is_same.all(axis=1), len(prompt), is_same.argmin(axis=1))
        best = int(cached.argmax())
        return Prefix(int(slots[best]), int(cached[best]))

    def hold(self, slot: int, tokens: Ints) -> None:
        """Records that the slot's cache holds exactly these tokens."""
        self.ids_SC[slot, : len(tokens)] = tokens
        self.lengths_S[slot] = len(tokens)

    def extend(self, slots_B: Ints, ids_B: Ints) -> None:
        """Records one more cached token in each slot."""
        self.ids_SC[slots_B, self.lengths_S[slots_B]] = ids_B
        self.lengths_S[slots_B] += 1

    def clear(self) -> None:
        """Drops all tokens and sessions."""
        self.lengths_S[:] = 0
        self._owners = [None] * len(self._owners)
        self._slots.clear()
