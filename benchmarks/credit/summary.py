"""Measurements as figures: agreement with the truth, tokens to the target, and whether turn credit is ahead.

Ahead is a contender whose gain, the binary logarithm of how many times fewer tokens it took than the baseline,
paired by seed, has an interval above 0. The interval is Student's, because five seeds are too few for a bootstrap,
and Bonferroni's correction makes it hold for all contenders of a part at once. An attempt at the target that was
given up counts as the tokens it had taken: gains of contenders that were given up are too large, gains over a
baseline that was given up too small.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from benchmarks.credit.estimator import BASELINE
from benchmarks.credit.measurements import PartFindings, Practised, Ranked
from upturn.deployment import bootstrap_mean
from upturn.records import JsonValue, Result

_CONFIDENCE = 0.95


class Gain(NamedTuple):
    """Over the baseline, as binary logarithm."""

    value: float
    low: float | None
    """None = one seed, which says nothing about others."""
    high: float | None
    n: int

    @property
    def is_ahead(self) -> bool:
        """Shown to need fewer tokens."""
        return self.low is not None and self.low > 0


def gain(contender: Sequence[Practised], baseline: Sequence[Practised], *, compared: int) -> Gain:
    """Paired by place; the interval holds for ``compared`` contenders at once."""
    ratios = np.log2([theirs.tokens / own.tokens for own, theirs in zip(contender, baseline, strict=True)])
    mean, count = float(ratios.mean()), len(ratios)
    if count < 2:
        return Gain(mean, None, None, count)
    tail = (1.0 - _CONFIDENCE) / (2 * compared)
    half = float(student.ppf(1.0 - tail, count - 1)) * float(ratios.std(ddof=1)) / math.sqrt(count)
    return Gain(mean, mean - half, mean + half, count)


def results(part: PartFindings) -> list[Result]:
    """Agreement, its ceiling, tokens and gains."""
    found = [
        _mean(f"{part.name}_agreement_{name}", [each.correlation for each in seeds], "Spearman")
        for name, seeds in part.ranked.items()
    ]
    if part.ceilings:
        found.append(_mean(f"{part.name}_agreement_ceiling", [each.ceiling for each in part.ceilings], "Spearman"))
    found += [
        _mean(f"{part.name}_tokens_{name}", [float(each.tokens) for each in seeds], "tokens")
        for name, seeds in part.practised.items()
    ]
    found += [
        Result(f"{part.name}_gain_{name}", each.value, "log2", each.low, each.high, each.n)
        for name, each in gains(part).items()
    ]
    return found


def gains(part: PartFindings) -> Mapping[str, Gain]:
    """Of each contender but the baseline; empty where the baseline was not measured."""
    others = [name for name in part.practised if name != BASELINE]
    if BASELINE not in part.practised:
        return {}
    baseline = part.practised[BASELINE]
    return {name: gain(part.practised[name], baseline, compared=len(others)) for name in others}


def ahead(parts: Sequence[PartFindings]) -> Result:
    """Which contenders are ahead of the baseline in every part that was measured."""
    shown = [{name for name, each in gains(part).items() if each.is_ahead} for part in parts]
    names = [name for name in (parts[0].practised if parts else {}) if all(name in each for each in shown)]
    return Result("turn_credit_ahead", ", ".join(names) or "none")


def details(part: PartFindings) -> dict[str, JsonValue]:
    """What the figures leave out: seeds that were given up, what was chosen, tokens, agreement by skill."""
    found: dict[str, JsonValue] = {
        "not_reached": {name: sum(not each.is_reached for each in seeds) for name, seeds in part.practised.items()},
        "tokens_for_agreement": {
            name: float(np.mean([each.tokens for each in seeds])) for name, seeds in part.ranked.items()
        },
        "agreement_by_skill": {name: _by_skill(seeds) for name, seeds in part.ranked.items() if seeds[0].by_skill},
    }
    if part.choices:
        found["chosen"] = {
            name: {
                "learning_rate": each.learning_rate,
                "groups": each.groups,
                "continuations": each.continuations,
            }
            for name, each in part.choices.items()
        }
    if part.ceilings:
        found["split_half_agreement"] = float(np.mean([each.halves for each in part.ceilings]))
    return found


def _by_skill(seeds: Sequence[Ranked]) -> dict[str, JsonValue]:
    skills = [skill for skill, _ in seeds[0].by_skill]
    means = np.mean([[value for _, value in each.by_skill] for each in seeds], axis=0)
    return {f"{skill:g}": float(mean) for skill, mean in zip(skills, means, strict=True)}


def _mean(name: str, values: Sequence[float], unit: str) -> Result:
    """With its 95 % bootstrap interval over seeds."""
    found = bootstrap_mean(values, seed=0)
    return Result(name, found.mean, unit, found.low, found.high, found.n)
