"""Figures of the measurements: agreement with the truth, tokens to the target, and gains over the baseline.

A gain is the binary logarithm of how many times fewer tokens an estimator needs than the baseline, paired by seed.
An estimator is better than the baseline when the interval of its gain is above 0. The interval is Student's,
because five seeds are too few for a bootstrap, with Bonferroni's correction for all estimators of a part. A run
that does not reach the target counts with its budget: gains of such estimators are too large, gains over such a
baseline too small.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from benchmarks.credit.estimator import BASELINE
from benchmarks.credit.measurements import Agreement, PartResults, TrainingRun
from upturn.interval import bootstrap_mean
from upturn.records import JsonValue, Result

_CONFIDENCE = 0.95


class Gain(NamedTuple):
    """Gain over the baseline, as binary logarithm."""

    value: float
    low: float | None
    """None for a single seed."""
    high: float | None
    n: int

    @property
    def is_better(self) -> bool:
        """True when the whole interval is above 0."""
        return self.low is not None and self.low > 0


def gain(runs: Sequence[TrainingRun], baseline: Sequence[TrainingRun], *, compared: int) -> Gain:
    """The gain of runs paired by position; its interval holds for ``compared`` estimators at once."""
    ratios = np.log2([other.tokens / run.tokens for run, other in zip(runs, baseline, strict=True)])
    mean, count = float(ratios.mean()), len(ratios)
    if count < 2:
        return Gain(mean, None, None, count)
    tail = (1.0 - _CONFIDENCE) / (2 * compared)
    half = float(student.ppf(1.0 - tail, count - 1)) * float(ratios.std(ddof=1)) / math.sqrt(count)
    return Gain(mean, mean - half, mean + half, count)


def results(part: PartResults) -> list[Result]:
    """Agreement, its ceiling, tokens and gains."""
    rows = [
        _mean(f"{part.name}_agreement_{name}", [agreement.correlation for agreement in agreements], "Spearman")
        for name, agreements in part.agreements.items()
    ]
    if part.ceilings:
        ceilings = [ceiling.ceiling for ceiling in part.ceilings]
        rows.append(_mean(f"{part.name}_agreement_ceiling", ceilings, "Spearman"))
    rows += [
        _mean(f"{part.name}_tokens_{name}", [float(run.tokens) for run in runs], "tokens")
        for name, runs in part.runs.items()
    ]
    rows += [
        Result(f"{part.name}_gain_{name}", gain.value, "log2", gain.low, gain.high, gain.n)
        for name, gain in gains(part).items()
    ]
    return rows


def gains(part: PartResults) -> Mapping[str, Gain]:
    """By estimator except the baseline; empty where the baseline was not measured."""
    if BASELINE not in part.runs:
        return {}
    baseline, others = part.runs[BASELINE], [name for name in part.runs if name != BASELINE]
    return {name: gain(part.runs[name], baseline, compared=len(others)) for name in others}


def best_estimators(parts: Sequence[PartResults]) -> Result:
    """The estimators that are better than the baseline in every part."""
    better = [{name for name, gain in gains(part).items() if gain.is_better} for part in parts]
    names = [name for name in (parts[0].runs if parts else {}) if all(name in part for part in better)]
    return Result("turn_credit_ahead", ", ".join(names) or "none")


def details(part: PartResults) -> dict[str, JsonValue]:
    """Runs that did not reach the target, hyperparameters, tokens, and agreement by skill."""
    details: dict[str, JsonValue] = {
        "not_reached": {name: sum(not run.is_reached for run in runs) for name, runs in part.runs.items()},
        "tokens_for_agreement": {
            name: float(np.mean([agreement.tokens for agreement in agreements]))
            for name, agreements in part.agreements.items()
        },
        "agreement_by_skill": {
            name: _by_skill(agreements) for name, agreements in part.agreements.items() if agreements[0].by_skill
        },
    }
    if part.hyperparameters:
        details["chosen"] = {
            name: {"learning_rate": best.learning_rate, "groups": best.groups, "continuations": best.continuations}
            for name, best in part.hyperparameters.items()
        }
    if part.ceilings:
        details["split_half_agreement"] = float(np.mean([ceiling.halves for ceiling in part.ceilings]))
    return details


def _by_skill(agreements: Sequence[Agreement]) -> dict[str, JsonValue]:
    skills = [skill for skill, _ in agreements[0].by_skill]
    means = np.mean([[correlation for _, correlation in agreement.by_skill] for agreement in agreements], axis=0)
    return {f"{skill:g}": float(mean) for skill, mean in zip(skills, means, strict=True)}


def _mean(name: str, values: Sequence[float], unit: str) -> Result:
    """The mean over seeds with its 95 % bootstrap interval."""
    interval = bootstrap_mean(values, seed=0)
    return Result(name, interval.mean, unit, interval.low, interval.high, interval.n)
