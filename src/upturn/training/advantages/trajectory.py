"""Compares a trajectory's return with the group's returns."""

from collections.abc import Sequence

from upturn.errors import TrainingError
from upturn.training.advantage import GroupAdvantages, Need, ScoredGroup
from upturn.training.advantages.returns import (
    STD_FLOOR,
    differ,
    first_returns,
    group_advantages,
    mean_of,
    returns_to_go,
    sample_std,
    zero_credit,
)
from upturn.training.advantages.settings import Baseline, Scale


class GroupRelative:
    """Each turn gets the trajectory's discounted return minus the group's mean (or that of the *other* members).

    With γ = 1 this is the centred advantage R − mean(R) of Dr. GRPO (arXiv 2503.20783), with ``leave_one_out`` that
    of RLOO (arXiv 2402.14740), with ``scale="std"`` that of GRPO (arXiv 2402.03300, sample standard deviation),
    with ``scale="mean"`` that of MaxRL. Rewards before a turn count as well: a return-to-go would need a baseline
    at each index, which ``TurnRelative`` has. Departure: a group of one gives 0, never the raw reward; only
    ``baseline="none"``, which compares nothing within a group, gives every trajectory its return.
    """

    needs: frozenset[Need] = frozenset()

    def __init__(self, *, gamma: float = 1.0, baseline: Baseline = "group_mean", scale: Scale = "none") -> None:
        """``scale``: scales over the whole iteration are applied by ``upturn.training.advantages.rescaled``."""
        self.gamma = gamma
        self.baseline: Baseline = baseline
        self.scale: Scale = scale

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """One number per turn of each member; all 0 where the returns are equal."""
        returns = first_returns(returns_to_go(group, self.gamma))
        scorable = [value for value in returns if value is not None]
        is_compared = self.baseline != "none"
        if is_compared and not differ(scorable):
            return group_advantages([zero_credit(member) for member in group.members], returns)
        divisor = self._divisor(group, scorable) if is_compared else 1.0
        numbers = [
            0.0 if value is None else (value - self._baseline(scorable, value)) / divisor for value in returns
        ]
        turns = [
            [number] * len(member.trajectory.turns) for member, number in zip(group.members, numbers, strict=True)
        ]
        advantages = group_advantages(turns, returns)
        return advantages._replace(is_informative=True) if is_compared else advantages

    def _baseline(self, scorable: Sequence[float], own: float) -> float:
        match self.baseline:
            case "none":
                return 0.0
            case "leave_one_out":
                return leave_one_out_mean(scorable, own)
            case "group_mean":
                return mean_of(scorable)

    def _divisor(self, group: ScoredGroup, scorable: Sequence[float]) -> float:
        if self.scale == "std":
            return sample_std(scorable) + STD_FLOOR
        if self.scale != "mean":
            return 1.0
        if min(scorable) < 0:
            raise TrainingError(
                f"scale='mean' divides by the mean return, but task {group.task.id!r} has a return of "
                f"{min(scorable)!r}; returns must be 0 or more, or choose another scale"
            )
        return mean_of(scorable)


def leave_one_out_mean(values: Sequence[float], own: float) -> float:
    """The mean of all values but one, ``own``; at least two values."""
    return (mean_of(values) * len(values) - own) / (len(values) - 1)
