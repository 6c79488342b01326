"""Compares turns that start in the same state."""

from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import NamedTuple

from upturn.errors import TrainingError
from upturn.training.advantage import GroupAdvantages, Need, ScoredGroup
from upturn.training.advantages.returns import (
    TurnNumbers,
    centred,
    checked_rewards,
    first_returns,
    group_advantages,
    mean_of,
    returns_to_go,
    zero_credit,
)
from upturn.training.advantages.settings import Anchor


class TurnIndex(NamedTuple):
    """Index of a turn in a group."""

    member: int
    turn: int


class StateAnchored:
    """GiGPO (arXiv 2505.10978): A = A^E + ω·A^S.

    A^E is the trajectory's undiscounted return minus the mean over trajectories (each once, whatever its length).
    A^S is a turn's discounted return-to-go minus the mean over all turns that start in the same state, of any
    trajectory of the task and at any index; a state visited once gives 0. ``is_scaled`` divides both by their
    sample standard deviations (the paper's F_norm = std), otherwise neither (F_norm = 1). With γ < 1 A^S also
    rewards finishing sooner. States are equal if their hashes are, or, with ``anchor="observation"``, if the turns'
    observations are.

    Departure: A turn late in a trajectory has fewer rewards ahead than an early one. Where turns are rewarded, the
    returns-to-go of A^S are therefore taken minus the typical reward of a turn (the group's lower median) for each
    turn up to the group's mean length. A reward that every turn gets then has no influence. With one reward at the
    end the typical reward is 0, and A^S is the paper's.
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
        rewards_to_go = returns_to_go(group, self.gamma)
        above_typical = self._above_typical(group, rewards_to_go)
        outcomes = self._outcome_advantages(group)
        turn_credits = [list(zero_credit(member)) for member in group.members]
        for index, turns in enumerate(rewards_to_go):
            if turns is not None:
                turn_credits[index] = [outcomes[index]] * len(turns)
        for indices in anchor_groups(group, self.anchor).values():
            for (member, turn), value in zip(indices, self._compared(above_typical, indices), strict=True):
                turn_credits[member][turn] += self.turn_weight * value
        return group_advantages(turn_credits, first_returns(rewards_to_go))

    def _outcome_advantages(self, group: ScoredGroup) -> list[float]:
        """By member; 0 for unscorable ones."""
        returns = first_returns(returns_to_go(group, 1.0))
        scored = iter(centred([value for value in returns if value is not None], is_scaled=self.is_scaled))
        return [0.0 if value is None else next(scored) for value in returns]

    def _above_typical(
        self, group: ScoredGroup, rewards_to_go: Sequence[TurnNumbers | None]
    ) -> list[TurnNumbers | None]:
        """The returns-to-go minus those of a trajectory of mean length with the lower median reward per turn."""
        rewards = [rewards for member in group.members if (rewards := checked_rewards(member))]
        typical = median_low([reward for turns in rewards for reward in turns]) if rewards else 0.0
        if typical == 0.0:
            return list(rewards_to_go)
        length = mean_of([float(len(turns)) for turns in rewards])
        return [
            turns
            and tuple(
                value - typical * _discounted_turns(length - index, self.gamma) for index, value in enumerate(turns)
            )
            for turns in rewards_to_go
        ]

    def _compared(self, returns: Sequence[TurnNumbers | None], indices: Sequence[TurnIndex]) -> list[float]:
        values = []
        for member, turn in indices:
            turns = returns[member]
            assert turns is not None  # anchor groups hold scorable members only
            values.append(turns[turn])
        return centred(values, is_scaled=self.is_scaled)


def _discounted_turns(turns: float, gamma: float) -> float:
    """1 + γ + γ² + … over a number of turns, which may be a fraction or negative."""
    return turns if gamma == 1.0 else (1.0 - gamma**turns) / (1.0 - gamma)


def anchor_groups(group: ScoredGroup, anchor: Anchor = "state_hash") -> Mapping[str, list[TurnIndex]]:
    """The turns of scorable members by the state that they start in.

    Raises TrainingError where a turn has no hash, and where several members share no hash at all: the environment
    builds its world from the task alone, so all trajectories must start in one state.
    """
    by_state: dict[str, list[TurnIndex]] = {}
    members = [(index, member.trajectory) for index, member in enumerate(group.members) if member.is_scorable]
    for index, trajectory in members:
        for turn_index, turn in enumerate(trajectory.turns):
            state = turn.state_hash
            if anchor == "observation":
                state = f"{turn.observation.code}\n{turn.observation.text}"
            if not state:
                raise TrainingError(
                    f"turn {turn_index} of trajectory {trajectory.id!r} has no state hash, by which turns of one "
                    "state are grouped; let the environment give Info.state_hash, or set anchor='observation'"
                )
            by_state.setdefault(state, []).append(TurnIndex(index, turn_index))
    acting = sum(bool(trajectory.turns) for _, trajectory in members)
    if anchor == "state_hash" and acting > 1 and max(map(len, by_state.values())) == 1:
        raise TrainingError(
            f"no two turns of the {acting} trajectories of task {group.task.id!r} start in one state, not even the "
            "first ones: remove what differs between trajectories (times, ids) from Info.state_hash, or set "
            "anchor='observation'"
        )
    return by_state
