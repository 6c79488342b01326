"""Turns that began in the same state, compared with each other."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from upturn.errors import TrainingError
from upturn.training.advantage import GroupAdvantages, Need, ScoredGroup
from upturn.training.advantages.returns import (
    STD_FLOOR,
    TurnNumbers,
    differ,
    first_returns,
    mean_of,
    returns_to_go,
    sample_std,
    silent,
    told,
)
from upturn.training.advantages.settings import Anchor


class Place(NamedTuple):
    """A turn of a group's member."""

    member: int
    turn: int


class StateAnchored:
    """GiGPO (arXiv 2505.10978): A = A^E + ω·A^S.

    A^E is the attempt's undiscounted return minus the mean over attempts (each once, however many turns it has).
    A^S is a turn's discounted return-to-go minus the mean over all turns that began in the same state, of any
    attempt at the task and at any index; a state met once gives 0. ``is_scaled`` divides both by their sample
    standard deviations (the paper's F_norm = std), otherwise neither (F_norm = 1). With γ < 1 A^S also rewards
    finishing sooner. States are equal where their hashes are, or, with ``anchor="observation"``, where the turns'
    observations are.
    """

    def __init__(
        self,
        *,
        gamma: float = 1.0,
        turn_weight: float = 1.0,
        is_scaled: bool = False,
        anchor: Anchor = "state_hash",
    ) -> None:
        """``turn_weight``: ω."""
        self.gamma = gamma
        self.turn_weight = turn_weight
        self.is_scaled = is_scaled
        self.anchor: Anchor = anchor
        self.needs: frozenset[Need] = frozenset({"state_hashes"} if anchor == "state_hash" else ())

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """One number per turn of each member."""
        to_go = returns_to_go(group, self.gamma)
        outcomes = self._outcome_advantages(group)
        found = [list(silent(member)) for member in group.members]
        for place, turns in enumerate(to_go):
            if turns is not None:
                found[place] = [outcomes[place]] * len(turns)
        for places in anchor_groups(group, self.anchor).values():
            for (member, turn), value in zip(places, self._compared(to_go, places), strict=True):
                found[member][turn] += self.turn_weight * value
        return told(found, first_returns(to_go))

    def _outcome_advantages(self, group: ScoredGroup) -> list[float]:
        """By member; 0 for unscorable ones."""
        returns = first_returns(returns_to_go(group, 1.0))
        known = [value for value in returns if value is not None]
        if not differ(known):
            return [0.0] * len(returns)
        mean, divisor = mean_of(known), self._divisor(known)
        return [0.0 if value is None else (value - mean) / divisor for value in returns]

    def _compared(self, to_go: Sequence[TurnNumbers | None], places: Sequence[Place]) -> list[float]:
        values = []
        for member, turn in places:
            turns = to_go[member]
            assert turns is not None  # anchor groups hold scorable members only
            values.append(turns[turn])
        if not differ(values):
            return [0.0] * len(values)
        mean, divisor = mean_of(values), self._divisor(values)
        return [(value - mean) / divisor for value in values]

    def _divisor(self, values: Sequence[float]) -> float:
        return sample_std(values) + STD_FLOOR if self.is_scaled else 1.0


def anchor_groups(group: ScoredGroup, anchor: Anchor = "state_hash") -> Mapping[str, list[Place]]:
    """By state: the turns of scorable members that began in it.

    Raises TrainingError where a turn has no hash, and where several members share no hash at all: an environment
    builds its world from the task alone, so attempts begin in one state, and such hashes tell of something else.
    """
    found: dict[str, list[Place]] = {}
    members = [(place, member.trajectory) for place, member in enumerate(group.members) if member.is_scorable]
    for place, trajectory in members:
        for index, turn in enumerate(trajectory.turns):
            state = turn.state_hash
            if anchor == "observation":
                state = f"{turn.observation.code}\n{turn.observation.text}"
            if not state:
                raise TrainingError(
                    f"turn {index} of trajectory {trajectory.id!r} has no state hash, by which turns of one state "
                    "are found; let the environment give Info.state_hash, or set anchor='observation'"
                )
            found.setdefault(state, []).append(Place(place, index))
    acting = sum(bool(trajectory.turns) for _, trajectory in members)
    if anchor == "state_hash" and acting > 1 and max(map(len, found.values())) == 1:
        raise TrainingError(
            f"no two turns of the {acting} attempts at task {group.task.id!r} began in one state, not even the "
            "first ones: leave out of Info.state_hash what differs between attempts (times, ids), or set "
            "anchor='observation'"
        )
    return found
