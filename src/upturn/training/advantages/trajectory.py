"""Compares a trajectory's return-to-go with the group's returns."""

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
    """Discounted return-to-go of each turn, minus the group's mean return (or the mean of the *other* members).

    With γ = 1 and one reward at the end this is the centred advantage r − mean(r) of Dr. GRPO (arXiv 2503.20783),
    with ``leave_one_out`` that of RLOO (arXiv 2402.14740), with ``scale="std"`` that of GRPO (arXiv 2402.03300,
    sample standard deviation), with ``scale="mean"`` that of MaxRL. Departure: a group of one gives 0, never the
    raw reward; only ``baseline="none"``, which compares nothing within a group, gives every trajectory its return.
    """

    needs: frozenset[Need] = frozenset()

    def __init__(self, *, gamma: float = 1.0, baseline: Baseline = "group_mean", scale: Scale = "none") -> None:
        """``scale``: scales over the whole iteration are applied by ``upturn.training.advantages.rescaled``."""
        self.gamma = gamma
        self.baseline: Baseline = baseline
        self.scale: Scale = scale

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """One number per turn of each member; all 0 where the returns are equal."""
        rewards_to_go = returns_to_go(group, self.gamma)
        returns = first_returns(rewards_to_go)
        if self.baseline == "none":
            raw = [
                zero_credit(member) if turns is None else turns
                for member, turns in zip(group.members, rewards_to_go, strict=True)
            ]
            return group_advantages(raw, returns)
        scorable = [value for value in returns if value is not None]
        if not differ(scorable):
            return group_advantages([zero_credit(member) for member in group.members], returns)
        divisor = self._divisor(group, scorable)
        turn_credits = []
        for member, turns, value in zip(group.members, rewards_to_go, returns, strict=True):
            if turns is None or value is None:
                turn_credits.append(zero_credit(member))
                continue
            baseline = (
                leave_one_out_mean(scorable, value) if self.baseline == "leave_one_out" else mean_of(scorable)
            )
            turn_credits.append(tuple((turn - baseline) / divisor for turn in turns))
        return group_advantages(turn_credits, returns)._replace(is_informative=True)

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
