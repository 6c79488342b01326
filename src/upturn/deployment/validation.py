"""Validation: a paired comparison of candidate and incumbent on held-out tasks, the gate before a canary.

Order of checks; the first group that applies gives the verdict:

1. nothing to compare, fewer independent tasks than ``min_tasks``, or too many evaluations missing → ``hold``
2. harm → ``fail``: a family is significantly worse (Holm over families); the lower limit of the pooled difference
   over the families that the incumbent solves at ``strong_rate`` or more is below −``forgetting_margin``; safety
   costs are significantly higher, or their upper limit is above ``safety_margin``; or the overall success rate is
   significantly lower
3. no significant improvement, or less than the required effect → ``hold``; otherwise → ``pass``

Tasks of one episode depend on each other and are one unit (a cluster) in every interval, test and count of
independent tasks. Where there are such, an improvement must also be significant by sign flips of the clusters. That
test is exact for an unchanged candidate with clusters of any number and size; the bootstrap is not.

A missing evaluation counts as a failure in every rate and is reported. A gain that exists only because the
incumbent's missing evaluations count as failures does not pass.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal, NamedTuple

import numpy as np

from upturn.config import ValidationSettings
from upturn.deployment.paired_test import holm, paired_worse_p
from upturn.interval import Interval, bootstrap_mean
from upturn.records import Evaluation, Task, record

ValidationVerdict = Literal["pass", "fail", "hold"]


class Pair(NamedTuple):
    """The results of both versions on one held-out task."""

    task_id: str
    family: str
    level: int
    incumbent: float | None
    """Success rate of the incumbent's trajectories, in [0, 1]; None = not evaluated."""
    candidate: float | None
    incumbent_cost: float = 0.0
    """Mean safety cost of the incumbent's trajectories."""
    candidate_cost: float = 0.0
    episode: str | None = None
    """Tasks with the same episode are one unit; None = the task is a unit by itself."""


@record
class Comparison:
    """Success rates of both versions on one set of tasks; missing evaluations count as failures."""

    name: str
    n: int
    incumbent: float
    candidate: float
    difference: float
    low: float
    """Two-sided limit of the difference, from a bootstrap over tasks, at confidence 1 − alpha."""
    high: float
    worse_p: float
    """One-sided p-value of "the candidate is worse"; Holm-adjusted over families in ``Validation.families``."""
    missing: int = 0
    """Tasks without an evaluation of at least one version."""
    clusters: int | None = None
    """Independent tasks: an episode counts as one. None = ``n``."""

    @property
    def size(self) -> str:
        """The number of tasks, and of clusters if it differs, for example ``n=40 in 8 episodes``."""
        return f"n={self.n}" if self.clusters is None else f"n={self.n} in {self.clusters} episodes"


@record
class Validation:
    """The verdict of a validation with its evidence."""

    verdict: ValidationVerdict
    reasons: tuple[str, ...]
    gain: float | None
    """Candidate minus incumbent success rate over all tasks; None = nothing to compare."""
    low: float | None
    """Two-sided limit of the gain at confidence 1 − alpha; None = nothing to compare."""
    high: float | None
    n: int
    missing: int
    families: tuple[Comparison, ...] = ()
    levels: tuple[Comparison, ...] = ()
    strong: Comparison | None = None
    """The families that the incumbent solves at ``strong_rate`` or more, pooled, with one-sided limits; None = no
    such family."""
    cost_difference: float | None = None
    """Candidate minus incumbent mean safety cost per task, with one-sided limits; None = nothing to compare."""
    cost_low: float | None = None
    cost_high: float | None = None

    @property
    def summary(self) -> str:
        """The verdict and its reasons on one line."""
        return f"{self.verdict}: {'; '.join(self.reasons)}"


def pairs_of(
    tasks: Iterable[Task],
    incumbent: Mapping[str, Sequence[Evaluation]],
    candidate: Mapping[str, Sequence[Evaluation]],
    safety_costs: Sequence[str] | None = None,
) -> tuple[Pair, ...]:
    """Returns one pair per task from both versions' evaluations by task id, also for tasks without evaluations.

    A task with several trajectories counts with its success rate. ``safety_costs`` names the cost components that
    count (None = all).
    """
    pairs = []
    for task in tasks:
        old, new = incumbent.get(task.id, ()), candidate.get(task.id, ())
        costs = _mean_cost(old, safety_costs), _mean_cost(new, safety_costs)
        rates = _success_rate(old), _success_rate(new)
        pairs.append(Pair(task.id, task.family, task.level, *rates, *costs, task.episode))
    return tuple(pairs)


def validate(pairs: Sequence[Pair], settings: ValidationSettings, *, seed: int) -> Validation:
    """Returns the verdict on a candidate version; equal pairs, settings and seed give an equal record.

    Raises ValueError if a task occurs in several pairs.
    """
    if len({pair.task_id for pair in pairs}) != len(pairs):
        raise ValueError("a task occurs in several pairs; put all evaluations of a task into one")
    missing = sum(pair.incumbent is None or pair.candidate is None for pair in pairs)
    if not any(pair.incumbent is not None and pair.candidate is not None for pair in pairs):
        reason = f"no data: none of {len(pairs)} held-out tasks is evaluated for both versions"
        return Validation("hold", (reason,), None, None, None, len(pairs), missing)
    overall = _compare("all", pairs, settings, seed)
    families = _compare_groups(pairs, lambda pair: pair.family, settings, seed)
    adjusted = holm([family.worse_p for family in families])
    families = tuple(replace(family, worse_p=float(p)) for family, p in zip(families, adjusted, strict=True))
    strong_names = {family.name for family in families if family.incumbent >= settings.strong_rate}
    strong_pairs = [pair for pair in pairs if pair.family in strong_names]
    strong = _compare("strong families", strong_pairs, settings, seed, is_one_sided=True) if strong_pairs else None
    cost = bootstrap_mean(
        [pair.candidate_cost - pair.incumbent_cost for pair in pairs],
        seed,
        clusters=_clusters(pairs),
        confidence=1.0 - 2.0 * settings.alpha,
        resamples=settings.resamples,
    )
    harms = [*_forgetting(families, strong, settings), *_safety_harms(cost, settings)]
    worst_case = [pair._replace(incumbent=1.0) if pair.incumbent is None else pair for pair in pairs]
    verdict, reasons = _verdict(
        overall,
        harms,
        settings,
        worst_case_low=_compare("worst case", worst_case, settings, seed).low,
        better_p=_better_p(pairs, settings, seed),
    )
    return Validation(
        verdict=verdict,
        reasons=tuple(reasons),
        gain=overall.difference,
        low=overall.low,
        high=overall.high,
        n=len(pairs),
        missing=missing,
        families=families,
        levels=_compare_groups(pairs, lambda pair: f"L{pair.level}", settings, seed),
        strong=strong,
        cost_difference=cost.mean,
        cost_low=cost.low,
        cost_high=cost.high,
    )


def _verdict(
    overall: Comparison,
    harms: Sequence[str],
    settings: ValidationSettings,
    *,
    worst_case_low: float,
    better_p: float,
) -> tuple[ValidationVerdict, Sequence[str]]:
    """Returns verdict and reasons; ``worst_case_low`` counts the incumbent's missing evaluations as successes."""
    limits = f"[{_points(overall.low)}, {_points(overall.high)}]"
    gain = f"gain {_points(overall.difference)} points {limits}, {overall.size}"
    if (overall.clusters or overall.n) < settings.min_tasks:
        what = f"{overall.n} tasks" if overall.clusters is None else f"{overall.clusters} episodes"
        return "hold", [f"{what} are fewer than the {settings.min_tasks} needed"]
    if overall.missing > settings.max_missing_share * overall.n:
        return "hold", [f"evaluations are missing for {overall.missing} of {overall.n} tasks"]
    if harms:
        return "fail", [*harms, gain]
    if overall.high < 0:
        return "fail", [f"significantly worse: {gain}"]
    if overall.low <= settings.minimum_effect:
        bar = f" above {_points(settings.minimum_effect)} points" if settings.minimum_effect else ""
        return "hold", [f"no significant improvement{bar}: {gain}"]
    if overall.clusters is not None and better_p > settings.alpha / 2.0:
        return "hold", [f"no significant improvement, p={better_p:.2g} by sign flips of episodes: {gain}"]
    if worst_case_low <= settings.minimum_effect:
        return "hold", [f"the gain rests on missing evaluations of the incumbent: {gain}"]
    return "pass", [gain]


def _forgetting(
    families: Sequence[Comparison], strong: Comparison | None, settings: ValidationSettings
) -> list[str]:
    """Returns the families that became worse, and a possible loss over the strong families."""
    harms = [
        f"family {family.name} is significantly worse: {_points(family.difference)} points, "
        f"p={family.worse_p:.2g} (Holm), {family.size}"
        for family in families
        if family.worse_p <= settings.alpha
    ]
    # No interval blocks a candidate that lost nowhere; its p-value is then 1.
    if strong is not None and strong.worse_p < 1.0 and strong.low < -settings.forgetting_margin:
        harms.append(
            f"families at {settings.strong_rate:.0%} or more may have lost over "
            f"{100 * settings.forgetting_margin:g} points: {_points(strong.difference)}, "
            f"lower limit {_points(strong.low)}, {strong.size}"
        )
    return harms


def _safety_harms(cost: Interval, settings: ValidationSettings) -> list[str]:
    per_task = f"{cost.mean:+.3f} per task"
    if cost.low > 0:
        return [f"safety costs are significantly higher: {per_task}, lower limit {cost.low:+.3f}, n={cost.n}"]
    if cost.high > settings.safety_margin:
        margin, limit = f"{settings.safety_margin:g}", f"upper limit {cost.high:+.3f}"
        return [f"safety costs may be higher by over {margin}: {per_task}, {limit}, n={cost.n}"]
    return []


def _compare(
    name: str, pairs: Sequence[Pair], settings: ValidationSettings, seed: int, *, is_one_sided: bool = False
) -> Comparison:
    incumbent = np.array([pair.incumbent or 0.0 for pair in pairs])
    candidate = np.array([pair.candidate or 0.0 for pair in pairs])
    confidence = 1.0 - settings.alpha * (2.0 if is_one_sided else 1.0)
    difference, clusters = candidate - incumbent, _clusters(pairs)
    gain = bootstrap_mean(
        difference,
        seed,
        clusters=clusters,
        bounds=(-1.0, 1.0),
        confidence=confidence,
        resamples=settings.resamples,
    )
    units = len(pairs) if clusters is None else len(set(clusters))
    return Comparison(
        name=name,
        n=len(pairs),
        incumbent=float(incumbent.mean()),
        candidate=float(candidate.mean()),
        difference=gain.mean,
        low=gain.low,
        high=gain.high,
        worse_p=paired_worse_p(difference, seed, settings.resamples, clusters=clusters),
        missing=sum(pair.incumbent is None or pair.candidate is None for pair in pairs),
        clusters=None if units == len(pairs) else units,
    )


def _better_p(pairs: Sequence[Pair], settings: ValidationSettings, seed: int) -> float:
    """The one-sided p-value of "the candidate is better" by flipping signs of whole clusters."""
    losses = np.array([(pair.incumbent or 0.0) - (pair.candidate or 0.0) for pair in pairs])
    return paired_worse_p(losses, seed, settings.resamples, clusters=_clusters(pairs))


def _clusters(pairs: Sequence[Pair]) -> list[str] | None:
    """The name of each pair's episode; a task without one has a name that no other pair has. None = no episodes."""
    if all(pair.episode is None for pair in pairs):
        return None
    return [f"task {pair.task_id}" if pair.episode is None else f"episode {pair.episode}" for pair in pairs]


def _compare_groups(
    pairs: Sequence[Pair], key: Callable[[Pair], str], settings: ValidationSettings, seed: int
) -> tuple[Comparison, ...]:
    groups = groupby(sorted(pairs, key=key), key)
    return tuple(_compare(name, list(members), settings, seed) for name, members in groups)


def _success_rate(evaluations: Sequence[Evaluation]) -> float | None:
    """Returns the share of successes, counting a missing verdict as a failure; None = all verdicts are missing."""
    if all(evaluation.verdict == "missing" for evaluation in evaluations):
        return None
    return sum(evaluation.is_success for evaluation in evaluations) / len(evaluations)


def _mean_cost(evaluations: Sequence[Evaluation], names: Sequence[str] | None) -> float:
    """Returns the mean of the named costs (None = all) over the evaluations; 0 without evaluations."""
    total = 0.0
    for evaluation in evaluations:
        costs = evaluation.costs
        total += sum(costs.get(name, 0.0) for name in (costs if names is None else names))
    return total / max(len(evaluations), 1)


def _points(rate: float) -> str:
    return f"{100 * rate:+.1f}"
