"""Candidate against incumbent on held-out tasks, in pairs: the gate before a canary.

Order of checks; the first group with a finding gives the verdict:

1. nothing to compare, fewer tasks than ``min_tasks``, or too many evaluations missing → ``hold``
2. harm → ``fail``: a family shown worse (Holm over families), the pooled difference over the families in which the
   incumbent succeeds at ``strong_rate`` or more with its lower limit under −``forgetting_margin``, or safety costs
   shown higher or with their upper limit over ``safety_margin``
3. no improvement shown, or less than the required effect → ``hold``; otherwise ``pass``

A missing evaluation counts as a failure in every rate, and is reported; a gain that exists only because the
incumbent's missing evaluations count as failures is no gain. Not here: decisions on live traffic (``canary``).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal, NamedTuple

import numpy as np

from upturn.config import ValidationSettings
from upturn.deployment.interval import (
    Interval,
    bootstrap_mean,
    holm,
    paired_bootstrap,
    paired_worse_p,
)
from upturn.records import Evaluation, Task, record

ValidationVerdict = Literal["pass", "fail", "hold"]


class Pair(NamedTuple):
    """One held-out task with both versions' results."""

    task_id: str
    family: str
    level: int
    incumbent: float | None
    """Success rate of the incumbent's trajectories, in [0, 1]; None = evaluation missing."""
    candidate: float | None
    incumbent_cost: float = 0.0
    """Mean safety cost of the trajectories."""
    candidate_cost: float = 0.0


@record
class Comparison:
    """Both versions on one set of tasks; rates in [0, 1], missing evaluations counted as failures."""

    name: str
    n: int
    incumbent: float
    candidate: float
    difference: float
    low: float
    """Two-sided limits of the difference, bootstrap over tasks, at confidence 1 − alpha."""
    high: float
    worse_p: float
    """One-sided p-value of "worse"; for families adjusted by Holm over them."""
    missing: int = 0
    """Tasks of which at least one side's evaluation is missing."""


@record
class Validation:
    """The verdict, with its evidence."""

    verdict: ValidationVerdict
    reasons: tuple[str, ...]
    gain: float | None
    """Candidate minus incumbent success over all tasks; None = nothing to compare."""
    low: float | None
    """Two-sided limits at confidence 1 − alpha; None = nothing to compare."""
    high: float | None
    n: int
    missing: int
    families: tuple[Comparison, ...] = ()
    levels: tuple[Comparison, ...] = ()
    strong: Comparison | None = None
    """All families together in which the incumbent succeeds at ``strong_rate``; None = there is none. Its ``low``
    is the one-sided limit of the guardrail."""
    cost_difference: float | None = None
    """Candidate minus incumbent mean safety cost per task, between its one-sided limits."""
    cost_low: float | None = None
    cost_high: float | None = None

    @property
    def summary(self) -> str:
        """The verdict and its reasons in one line."""
        return f"{self.verdict}: {'; '.join(self.reasons)}"


def pairs_of(
    tasks: Iterable[Task],
    incumbent: Mapping[str, Sequence[Evaluation]],
    candidate: Mapping[str, Sequence[Evaluation]],
    safety_costs: Sequence[str] | None = None,
) -> tuple[Pair, ...]:
    """Pairs from both sides' evaluations by task id, one for each task, also where a side has none.

    A task with several trajectories counts with its success rate. ``safety_costs`` names the cost components that
    count (None = all).
    """
    paired = []
    for task in tasks:
        old, new = incumbent.get(task.id, ()), candidate.get(task.id, ())
        paired.append(
            Pair(
                task_id=task.id,
                family=task.family,
                level=task.level,
                incumbent=_rate(old),
                candidate=_rate(new),
                incumbent_cost=_cost(old, safety_costs),
                candidate_cost=_cost(new, safety_costs),
            )
        )
    return tuple(paired)


def validate(pairs: Sequence[Pair], settings: ValidationSettings, *, seed: int) -> Validation:
    """The verdict on a candidate version; the same pairs, settings and seed give the same record.

    Raises ValueError when a task occurs twice: all evaluations of a task belong in one pair.
    """
    if len({pair.task_id for pair in pairs}) != len(pairs):
        raise ValueError("a task occurs in several pairs; put all evaluations of a task into one")
    missing = sum(pair.incumbent is None or pair.candidate is None for pair in pairs)
    if not any(pair.incumbent is not None and pair.candidate is not None for pair in pairs):
        reason = f"no data: none of {len(pairs)} held-out tasks is judged on both sides"
        return Validation("hold", (reason,), None, None, None, len(pairs), missing)
    overall = _compare("all", pairs, settings, seed)
    families = _adjusted(_by(pairs, lambda pair: pair.family, settings, seed))
    strong = _strong(pairs, families, settings, seed)
    cost = bootstrap_mean(
        [pair.candidate_cost - pair.incumbent_cost for pair in pairs],
        seed,
        confidence=1.0 - 2.0 * settings.alpha,
        resamples=settings.resamples,
    )
    harms = [*_forgotten(families, strong, settings), *_less_safe(cost, settings)]
    worst_case = [pair._replace(incumbent=1.0) if pair.incumbent is None else pair for pair in pairs]
    verdict, reasons = _judge(overall, _compare("worst case", worst_case, settings, seed).low, harms, settings)
    return Validation(
        verdict=verdict,
        reasons=tuple(reasons),
        gain=overall.difference,
        low=overall.low,
        high=overall.high,
        n=len(pairs),
        missing=missing,
        families=families,
        levels=_by(pairs, lambda pair: f"L{pair.level}", settings, seed),
        strong=strong,
        cost_difference=cost.mean,
        cost_low=cost.low,
        cost_high=cost.high,
    )


def _judge(
    overall: Comparison, worst_low: float, harms: Sequence[str], settings: ValidationSettings
) -> tuple[ValidationVerdict, Sequence[str]]:
    limits = f"[{_points(overall.low)}, {_points(overall.high)}]"
    shown = f"gain {_points(overall.difference)} points {limits}, n={overall.n}"
    if overall.n < settings.min_tasks:
        return "hold", [f"{overall.n} tasks are fewer than the {settings.min_tasks} needed"]
    if overall.missing > settings.max_missing_share * overall.n:
        return "hold", [f"evaluations are missing for {overall.missing} of {overall.n} tasks"]
    if harms:
        return "fail", [*harms, shown]
    if overall.high < 0:
        return "fail", [f"shown worse: {shown}"]
    if overall.low <= settings.minimum_effect:
        bar = f" above {_points(settings.minimum_effect)} points" if settings.minimum_effect else ""
        return "hold", [f"no significant improvement{bar}: {shown}"]
    if worst_low <= settings.minimum_effect:
        return "hold", [f"the gain rests on missing evaluations of the incumbent: {shown}"]
    return "pass", [shown]


def _forgotten(
    families: Sequence[Comparison], strong: Comparison | None, settings: ValidationSettings
) -> list[str]:
    """The findings of the guardrail against forgetting."""
    findings = [
        f"family {family.name} is shown worse: {_points(family.difference)} points, "
        f"p={family.worse_p:.2g} (Holm), n={family.n}"
        for family in families
        if family.worse_p <= settings.alpha
    ]
    if strong is not None and strong.low < -settings.forgetting_margin:
        findings.append(
            f"families at {settings.strong_rate:.0%} or more may have lost over "
            f"{100 * settings.forgetting_margin:g} points: {_points(strong.difference)}, "
            f"lower limit {_points(strong.low)}, n={strong.n}"
        )
    return findings


def _less_safe(cost: Interval, settings: ValidationSettings) -> list[str]:
    if cost.low > 0:
        return [f"safety costs are shown higher: {cost.mean:+.3f} a task, lower limit {cost.low:+.3f}, n={cost.n}"]
    if cost.high > settings.safety_margin:
        return [
            f"safety costs may be higher by over {settings.safety_margin:g} a task: {cost.mean:+.3f}, "
            f"upper limit {cost.high:+.3f}, n={cost.n}"
        ]
    return []


def _compare(
    name: str, pairs: Sequence[Pair], settings: ValidationSettings, seed: int, *, is_one_sided: bool = False
) -> Comparison:
    incumbent = np.array([pair.incumbent or 0.0 for pair in pairs])
    candidate = np.array([pair.candidate or 0.0 for pair in pairs])
    confidence = 1.0 - settings.alpha * (2.0 if is_one_sided else 1.0)
    gain = paired_bootstrap(candidate, incumbent, seed, confidence=confidence, resamples=settings.resamples)
    return Comparison(
        name=name,
        n=len(pairs),
        incumbent=float(incumbent.mean()),
        candidate=float(candidate.mean()),
        difference=gain.mean,
        low=gain.low,
        high=gain.high,
        worse_p=paired_worse_p(candidate - incumbent, seed, settings.resamples),
        missing=sum(pair.incumbent is None or pair.candidate is None for pair in pairs),
    )


def _by(
    pairs: Sequence[Pair], key: Callable[[Pair], str], settings: ValidationSettings, seed: int
) -> tuple[Comparison, ...]:
    ordered = sorted(pairs, key=key)
    return tuple(_compare(name, list(members), settings, seed) for name, members in groupby(ordered, key))


def _adjusted(families: Sequence[Comparison]) -> tuple[Comparison, ...]:
    adjusted = holm([family.worse_p for family in families])
    return tuple(replace(family, worse_p=float(p)) for family, p in zip(families, adjusted, strict=True))


def _strong(
    pairs: Sequence[Pair], families: Sequence[Comparison], settings: ValidationSettings, seed: int
) -> Comparison | None:
    names = {family.name for family in families if family.incumbent >= settings.strong_rate}
    guarded = [pair for pair in pairs if pair.family in names]
    return _compare("strong families", guarded, settings, seed, is_one_sided=True) if guarded else None


def _rate(evaluations: Sequence[Evaluation]) -> float | None:
    """Share of successes, a missing verdict being none; None where nothing was judged."""
    if all(evaluation.verdict == "missing" for evaluation in evaluations):
        return None
    return sum(evaluation.is_success for evaluation in evaluations) / len(evaluations)


def _cost(evaluations: Sequence[Evaluation], names: Sequence[str] | None) -> float:
    if not evaluations:
        return 0.0
    total = sum(
        sum(evaluation.costs.get(name, 0.0) for name in (evaluation.costs if names is None else names))
        for evaluation in evaluations
    )
    return total / len(evaluations)


def _points(rate: float) -> str:
    return f"{100 * rate:+.1f}"
