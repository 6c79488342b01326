"""One number for an attempt: its return against those of its siblings, less what its earlier turns earned."""

from collections.abc import Sequence

from upturn.errors import TrainingError
from upturn.training.advantage import GroupAdvantages, Need, ScoredGroup
from upturn.training.advantages.returns import (
    STD_FLOOR,
    differ,
    first_returns,
    mean_of,
    returns_to_go,
    sample_std,
    silent,
    told,
)
from upturn.training.advantages.settings import Baseline, Scale


class GroupRelative:
    """Discounted return-to-go of each turn, minus the group's mean return (or the mean of the *other* members).

    With γ = 1 and one reward at the end this is the centred advantage r − mean(r) of Dr. GRPO (arXiv 2503.20783),
    with ``leave_one_out`` that of RLOO (arXiv 2402.14740), with ``scale="std"`` that of GRPO (arXiv 2402.03300,
    sample standard deviation), with ``scale="mean"`` that of MaxRL. Departure: a group of one gives 0, never the
    raw reward; only ``baseline="none"``, which compares nothing within a group, gives every attempt its return.
    """

    needs: frozenset[Need] = frozenset()

    def __init__(self, *, gamma: float = 1.0, baseline: Baseline = "group_mean", scale: Scale = "none") -> None:
        """``scale``: those of the whole iteration are left to ``upturn.training.advantages.rescaled``."""
        self.gamma = gamma
        self.baseline: Baseline = baseline
        self.scale: Scale = scale

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """One number per turn of each member; all 0 where the returns are equal."""
        to_go = returns_to_go(group, self.gamma)
        returns = first_returns(to_go)
        if self.baseline == "none":
            raw = [
                silent(member) if turns is None else turns
                for member, turns in zip(group.members, to_go, strict=True)
            ]
            return told(raw, returns)
        scorable = [value for value in returns if value is not None]
        if not differ(scorable):
            return told([silent(member) for member in group.members], returns)
        divisor = self._divisor(group, scorable)
        found = []
        for member, turns, value in zip(group.members, to_go, returns, strict=True):
            if turns is None or value is None:
                found.append(silent(member))
                continue
            baseline = others_mean(scorable, value) if self.baseline == "leave_one_out" else mean_of(scorable)
            found.append(tuple((turn - baseline) / divisor for turn in turns))
        return told(found, returns)._replace(is_informative=True)

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


def others_mean(values: Sequence[float], own: float) -> float:
    """The mean of all values but one ``own``; at least two values."""
    return (mean_of(values) * len(values) - own) / (len(values) - 1)
