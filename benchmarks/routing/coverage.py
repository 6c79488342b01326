"""The verdict on many measured coverages: which are shown to lie outside of the bounds.

Of 60 measured coverages, some lie outside of 93 to 97 % by chance: 500 logs measure one to within 2 points. Each is
tested against both bounds (exact binomial, one-sided), with Holm's adjustment over all of them: if all true
coverages lie in the bounds, one is rejected in at most 5 % of the runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scipy.stats import binom

from upturn.deployment import holm
from upturn.interval import clopper_pearson_interval
from upturn.records import Result

LOW, HIGH = 0.93, 0.97
"""Bounds of the coverage of 95 % intervals."""
ALPHA = 0.05


def judged(hits: Mapping[str, Sequence[bool]], *, has_bars: bool) -> tuple[Result, ...]:
    """Returns the coverage of each name, and how many are shown to lie below and above the bounds.

    ``hits``: for each log, whether the interval held the true value; not empty. ``has_bars``: False = without
    verdicts."""
    coverages = {
        name: clopper_pearson_interval(sum(found), len(found)).result(name) for name, found in hits.items()
    }
    if not has_bars:
        return tuple(coverages.values())
    below = [float(binom.cdf(sum(found), len(found), LOW)) for found in hits.values()]
    above = [float(binom.sf(sum(found) - 1, len(found), HIGH)) for found in hits.values()]
    rejected = [p <= ALPHA for p in holm([*below, *above])]
    is_below, is_above = rejected[: len(below)], rejected[len(below) :]
    bar = f"{LOW:g} to {HIGH:g}"
    rows = [
        replace(result, bar=bar, holds=not (low or high))
        for result, low, high in zip(coverages.values(), is_below, is_above, strict=True)
    ]
    count = len(rows)
    return (
        *rows,
        Result("coverages_shown_below", float(sum(is_below)), f"of {count}", bar="<= 0", holds=not any(is_below)),
        Result("coverages_shown_above", float(sum(is_above)), f"of {count}"),
    )
