"""Credit of a turn by the values of the states before and after it."""

import math
from collections.abc import Sequence
from itertools import pairwise

from upturn.errors import TrainingError
from upturn.training.advantage import GroupAdvantages, Need, ScoredGroup, ScoredTrajectory, StateValue
from upturn.training.advantages.returns import TurnNumbers, credit_members


class MonteCarloDelta:
    """A_t = r_t + γ·V̂(s_{t+1}) − V̂(s_t), as in VinePPO (arXiv 2410.01679), V̂ from continuations of each state.

    With γ = 1 a trajectory's advantages add up to its return minus V̂(s_0). No other member is needed, so a group of
    one has advantages too. Turns between two measured states share the change equally; the first and the last state
    must be measured.
    """

    needs: frozenset[Need] = frozenset({"state_values"})

    def __init__(self, *, gamma: float = 1.0) -> None:
        self.gamma = gamma

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """One number per turn of each member."""
        return credit_members(group, self.gamma, self._credits)

    def _credits(self, member: ScoredTrajectory, rewards: TurnNumbers) -> TurnNumbers:
        values = measured_values(member)
        measured = [index for index, value in enumerate(values) if value is not None]
        if measured[:1] != [0] or measured[-1] != len(rewards):
            raise TrainingError(
                f"trajectory {member.trajectory.id!r} has no value of its first state or of its last; measure at "
                "least these two, and turns between measured states share what changed"
            )
        turn_credits: list[float] = []
        for start, stop in pairwise(measured):
            before, after = values[start], values[stop]
            assert before is not None and after is not None  # by the choice of the two
            steps = stop - start
            reward_sum = math.fsum(self.gamma**index * reward for index, reward in enumerate(rewards[start:stop]))
            change = reward_sum + self.gamma**steps * after.mean - before.mean
            turn_credits += [change / steps] * steps
        return tuple(turn_credits)


def measured_values(member: ScoredTrajectory) -> Sequence[StateValue | None]:
    """The values of a scorable member's states; None = not measured.

    Raises TrainingError where values are absent, not one per state, infinite, or without a continuation.
    """
    values, trajectory = member.state_values, member.trajectory
    if values is None:
        raise TrainingError(
            f"trajectory {trajectory.id!r} has no state values; continue the rollout several times from each of "
            "its states and give the mean returns as state_values, or choose an estimator that needs none"
        )
    if len(values) != len(trajectory.turns) + 1:
        raise TrainingError(
            f"trajectory {trajectory.id!r} has {len(trajectory.turns)} turns but {len(values)} state values; "
            "give one before each turn and one after the last"
        )
    for value in values:
        if value is not None and (math.isinf(value.mean) or (value.count is not None and value.count < 1)):
            raise TrainingError(
                f"trajectory {trajectory.id!r} has the state value {value!r}; a value is finite and the mean of at "
                "least one continuation, or None"
            )
    return [None if value is None or math.isnan(value.mean) else value for value in values]
