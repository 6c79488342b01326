"""Which component moved while a policy was trained: the reward may rise although the work gets no better.

Compares the first third of the iterations with the last. Pure functions. Not covered: a change of the mix of tasks
during training, which moves components as well; and why a component moved.
"""

from collections.abc import Mapping, Sequence
from math import fsum, hypot
from typing import Literal, NamedTuple

from upturn.interval import Interval, welch_difference
from upturn.records import Evaluation, Result, record
from upturn.rewards.part import Term

Finding = Literal["diverged", "improved", "flat", "unknown"]
"""``diverged``: the reward rose and the held-out quality did not; ``improved``: both rose; ``flat``: the reward did
not rise; ``unknown``: there are too few iterations or no held-out quality. Rose = the 95 % interval is above 0."""
FEWEST = 6
"""Iterations: a third of them has two, the fewest with an interval."""


class Quality(NamedTuple):
    """A held-out evaluation during training."""

    iterations: int
    """Finished before it."""
    score: float
    low: float
    high: float


@record
class ComponentChange:
    """A component in the first and in the last third of the iterations."""

    name: str
    early: float
    """Mean over the iterations' means."""
    late: float
    low: float
    """Of the 95 % interval of late − early, with iterations as units."""
    high: float
    contribution: float
    """What the change adds to the reward: weight · (late − early)."""
    missing: int
    """Evaluations without the component."""


@record
class RewardAudit:
    """What moved."""

    finding: Finding
    reward: Interval | None
    """Change of the reward; None = too few iterations."""
    quality: Interval | None
    """Change of the held-out quality from its first to its last evaluation; None = there are not two."""
    components: tuple[ComponentChange, ...]
    """The largest contribution to the reward's rise first; metrics have none."""

    def results(self) -> Sequence[Result]:
        """The figures of a command."""
        changes = {"reward": self.reward, "held-out quality": self.quality}
        return [
            Result("finding", self.finding),
            *(interval.result(f"{name}: change", "") for name, interval in changes.items() if interval is not None),
            *(
                Result(f"{item.name}: change", item.late - item.early, "", item.low, item.high)
                for item in self.components
            ),
            *(Result(f"{item.name}: contribution", item.contribution) for item in self.components),
            *(Result(f"{item.name}: missing", float(item.missing)) for item in self.components if item.missing),
        ]


def audit_rewards(
    iterations: Sequence[Sequence[Evaluation]],
    rewards: Sequence[Sequence[float | None]],
    terms: Sequence[Term],
    quality: Sequence[Quality],
) -> RewardAudit:
    """The audit of a training run.

    ``iterations``: the evaluations of each, in order; ``rewards``: their rewards, in the same shape, None =
    missing. ``terms``: of the rubric, for the weights. Components without a term are metrics. Raises ValueError for
    rewards of another shape.
    """
    if [len(row) for row in rewards] != [len(row) for row in iterations]:
        raise ValueError("audit_rewards needs one reward, or None, for each evaluation of each iteration")
    reward = _change([_mean(row) for row in rewards])
    total = fsum(term.weight for term in terms if term.weight > 0)
    weights = {term.name: term.weight / total for term in terms}
    names = dict.fromkeys(
        (*weights, *(name for row in iterations for evaluation in row for name in evaluation.rewards))
    )
    found = [_component(name, iterations, weights) for name in names]
    known = sorted((item for item in found if item is not None), key=lambda item: -item.contribution)
    held_out = _quality_change(quality)
    return RewardAudit(_finding(reward, held_out), reward, held_out, tuple(known))


def _finding(reward: Interval | None, quality: Interval | None) -> Finding:
    if reward is None or (reward.low > 0 and quality is None):
        return "unknown"
    if reward.low <= 0 or quality is None:
        return "flat"
    return "improved" if quality.low > 0 else "diverged"


def _component(
    name: str, iterations: Sequence[Sequence[Evaluation]], weights: Mapping[str, float]
) -> ComponentChange | None:
    values = [[evaluation.rewards.get(name) for evaluation in row] for row in iterations]
    means = [_mean(row) for row in values]
    change = _change(means)
    if change is None:
        return None
    early, late = (fsum(part) / len(part) for part in _thirds(means))
    missing = sum(value is None for row in values for value in row)
    return ComponentChange(
        name, early, late, change.low, change.high, weights.get(name, 0.0) * (late - early), missing
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None


def _thirds(means: Sequence[float | None]) -> tuple[list[float], list[float]]:
    """The known means of the first and of the last third of the iterations."""
    size = len(means) // 3
    first, last = means[:size], means[len(means) - size :]
    return [value for value in first if value is not None], [value for value in last if value is not None]


def _change(means: Sequence[float | None]) -> Interval | None:
    early, late = _thirds(means)
    return None if min(len(early), len(late)) < FEWEST // 3 else welch_difference(late, early)


def _quality_change(quality: Sequence[Quality]) -> Interval | None:
    """Last less first, as of different tasks: too wide for the same ones, so no rise is claimed too early."""
    if len(quality) < 2:
        return None
    first, *_, last = sorted(quality)
    change = last.score - first.score
    below = hypot(last.score - last.low, first.high - first.score)
    above = hypot(last.high - last.score, first.score - first.low)
    return Interval(change, change - below, change + above, len(quality))
