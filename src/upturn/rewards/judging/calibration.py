"""The true average behind a judge's: people label a few works, the judge many. Pure functions.

Not for single works: a corrected average says nothing about which work is good.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist, fmean, variance

from upturn.interval import Interval


def prediction_powered_mean(
    unlabelled: Sequence[float], judged: Sequence[float], labels: Sequence[float], *, confidence: float = 0.95
) -> Interval:
    """The mean label of all works: mean(judge on unlabelled) + mean(label − judge on labelled).

    ``judged`` and ``labels``: the judge's scores and the labels of the same works. Labelled works must be a random
    sample. Prediction-powered inference (Angelopoulos et al., Science 2023), normal interval. It is valid however
    bad the judge is, and narrow where the judge is good. Raises ValueError for fewer than two works on either side.
    """
    if len(judged) != len(labels) or min(len(unlabelled), len(labels)) < 2:
        raise ValueError(
            "prediction_powered_mean needs two or more works with and without labels, and a score for each label; "
            f"got {len(unlabelled)} unlabelled, {len(judged)} judged and {len(labels)} labels"
        )
    errors = [label - score for label, score in zip(labels, judged, strict=True)]
    mean = fmean(unlabelled) + fmean(errors)
    spread = sqrt(variance(unlabelled) / len(unlabelled) + variance(errors) / len(errors))
    half = NormalDist().inv_cdf(0.5 + confidence / 2) * spread
    return Interval(mean, mean - half, mean + half, len(unlabelled) + len(labels))


def rogan_gladen(
    accepted: int,
    n: int,
    *,
    sensitivity: tuple[int, int],
    specificity: tuple[int, int],
    confidence: float = 0.95,
) -> Interval:
    """The true rate of success from the rate that a yes-or-no judge accepts: (p + sp − 1) / (se + sp − 1).

    ``accepted`` of ``n`` works without labels. ``sensitivity``: accepted ones of the works that people call good,
    as (count, of how many); ``specificity``: rejected ones of the bad ones. Rogan and Gladen (1978), with the
    interval of Lang and Reiczigel (2014), which adds observations so that rates of 0 and 1 have a width. Limits are
    cut to [0, 1]. Raises ValueError for counts that cannot be, and for a judge that is no better than chance.
    """
    counts = ((accepted, n), sensitivity, specificity)
    if any(not 0 <= part <= whole or whole == 0 for part, whole in counts):
        raise ValueError(f"rogan_gladen needs counts of 0 or more out of 1 or more, got {counts!r}")
    raw = [part / whole for part, whole in counts]
    if raw[1] + raw[2] <= 1:
        raise ValueError(
            f"the judge is no better than chance: sensitivity {raw[1]:.3f} and specificity {raw[2]:.3f} must "
            "add up to more than 1; label more works, or take another judge"
        )
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    point = min(max((raw[0] + raw[2] - 1) / (raw[1] + raw[2] - 1), 0.0), 1.0)
    # Lang and Reiczigel: z²/2 added successes and failures for the rate, one each for sensitivity and specificity.
    size = n + z * z
    rate = (accepted + z * z / 2) / size
    se, sp = ((part + 1) / (whole + 2) for part, whole in (sensitivity, specificity))
    width = se + sp - 1
    centre = (rate + sp - 1) / width
    spread = sqrt(
        rate * (1 - rate) / size
        + centre**2 * se * (1 - se) / (sensitivity[1] + 2)
        + (1 - centre) ** 2 * sp * (1 - sp) / (specificity[1] + 2)
    ) / abs(width)
    shift = (
        2
        * z
        * z
        * (centre * se * (1 - se) / (sensitivity[1] + 2) - (1 - centre) * sp * (1 - sp) / (specificity[1] + 2))
    )
    low, high = (min(max(centre + shift + sign * z * spread, 0.0), 1.0) for sign in (-1, 1))
    return Interval(point, min(low, point), max(high, point), n + sensitivity[1] + specificity[1])
