"""Credit for turns whose change of value is statistically significant: the first fall, and every rise."""

import math
from itertools import pairwise

from upturn.errors import TrainingError
from upturn.training.advantage import GroupAdvantages, Need, ScoredGroup, ScoredTrajectory, StateValue
from upturn.training.advantages.monte_carlo import measured_values
from upturn.training.advantages.returns import (
    NO_DIFFERENCE,
    TurnNumbers,
    checked_rewards,
    credit_members,
    rewards_to_go,
)

ERROR_PROBABILITY = 0.05
"""Default probability of a false credit per trajectory."""


class FirstDivergence:
    """The first turn with a significant fall of the value gets the fall; turns with a significant rise get it;
    all others get 0.

    A change r + γ·V̂(s′) − V̂(s) is significant if the continuations of both states make it larger than chance. By
    Hoeffding's inequality (returns within a range w, n and n′ independent continuations) two equal values differ by
    more than w·√(ln(2T/α)·(1/n + 1/n′)/2) in a given direction with probability at most α/2T, so over both
    directions of its T turns a trajectory gets a false credit with probability at most α. This holds for returns
    within w only: observed values and returns further apart are refused (unobserved ones cannot be detected).
    Trajectories are not compared with a reference: another way to the goal is not a divergence. Smaller changes get
    no credit; with 64 continuations, 5 turns and α = 0.05 the threshold is 0.29 of the range, and it falls with the
    square root of their number.
    """

    needs: frozenset[Need] = frozenset({"state_values"})

    def __init__(
        self, *, gamma: float = 1.0, error_probability: float = ERROR_PROBABILITY, value_range: float = 1.0
    ) -> None:
        """``value_range``: w, the largest possible return from any state minus the smallest, including the 0 after
        the end."""
        self.gamma = gamma
        self.error_probability = error_probability
        self.value_range = value_range

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """One number per turn of each member; at most one of each member's is negative.

        Raises TrainingError where values or returns are further apart than ``value_range``.
        """
        advantages = credit_members(group, self.gamma, self._credits)
        self._check_range(group)
        return advantages

    def _credits(self, member: ScoredTrajectory, rewards: TurnNumbers) -> TurnNumbers:
        turn_credits: list[float] = []
        has_fallen = False
        for reward, (before, after) in zip(rewards, pairwise(self._values(member)), strict=True):
            change = reward + self.gamma * after.mean - before.mean
            if abs(change) <= self.threshold(before, after, turns=len(rewards)) or (change < 0 and has_fallen):
                turn_credits.append(0.0)
                continue
            has_fallen = has_fallen or change < 0
            turn_credits.append(change)
        return tuple(turn_credits)

    def threshold(self, before: StateValue, after: StateValue, *, turns: int) -> float:
        """The largest change attributed to chance in one of that many turns."""
        spread = sum(0.0 if value.count is None else 1.0 / value.count for value in (before, after))
        log_odds = math.log(2 * turns / self.error_probability)
        return self.value_range * math.sqrt(log_odds * spread / 2) + NO_DIFFERENCE

    def _check_range(self, group: ScoredGroup) -> None:
        observed = [0.0]
        for member in group.members:
            rewards = checked_rewards(member)
            if rewards is not None:
                observed += rewards_to_go(rewards, self.gamma)
                observed += (value.mean for value in self._values(member))
        low, high = min(observed), max(observed)
        if high - low > self.value_range * (1 + NO_DIFFERENCE):
            raise TrainingError(
                f"task {group.task.id!r} has returns from {low!r} to {high!r} (values of states and the 0 after "
                f"the end included), further apart than value_range={self.value_range!r}: chance would count as a "
                "change; set advantage.value_range to the largest possible return minus the smallest, penalties "
                "included"
            )

    def _values(self, member: ScoredTrajectory) -> list[StateValue]:
        values = [value for value in measured_values(member) if value is not None]
        if len(values) != len(member.trajectory.turns) + 1:
            raise TrainingError(
                f"trajectory {member.trajectory.id!r} has states whose value was not measured; the first "
                "divergence needs the values of all states: measure them, or choose the estimator 'monte_carlo'"
            )
        return values
