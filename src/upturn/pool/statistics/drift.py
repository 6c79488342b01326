"""Drift: what changed between an earlier and a later part of the pool.

Compared are the success rate, the share without a verdict, turns, tokens, time and recorded cost of a trajectory,
and the share of each family. The unit is the task: trajectories of one task are not independent, so variances are
of means over clusters (ratio estimator; Cochran, Sampling Techniques, section 6.3) with Student's t. Shares have
two more tasks in each part, one with and one without, so that 0 of n has an interval (Agresti and Caffo, 2000). All
intervals hold together with 95 %: each has the confidence 1 - .05/m for m comparisons (Bonferroni).

It is one look: whoever looks again and again at a growing pool sees drift sooner or later (for decisions there are
the canary's tests, ``upturn.deployment``). A change of the mix of families or agents can change all else.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from upturn.pool import schema
from upturn.pool.reader import PoolReader
from upturn.pool.selection import EVERYTHING, Scope, Selection, select_trajectories
from upturn.pool.statistics.usage import recorded_costs

MOST_FAMILIES = 10
"""Families whose shares are compared, the largest first."""
MIN_TASKS = 10
"""In each part; with fewer there is no interval."""
_LEVEL = 0.05


class Change(NamedTuple):
    """A figure in both parts."""

    name: str
    """``success``, ``missing``, ``turns``, ``written_tokens``, ``seconds``, ``cost`` or ``family NAME``."""
    before: float
    after: float
    low: float | None
    """Of the interval of ``after - before``; None = too few tasks."""
    high: float | None
    trajectories: tuple[int, int]
    """Those with a value, in each part."""
    tasks: tuple[int, int]

    @property
    def has_changed(self) -> bool:
        """Whether the interval excludes no change."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


class Drift(NamedTuple):
    """The comparison of two parts of a selection."""

    split: float
    """The first time of the later part (UTC, seconds since 1970)."""
    trajectories: tuple[int, int]
    changes: tuple[Change, ...]


class _Rows(NamedTuple):
    """Columns of the selected trajectories in the order of arrival, (N,) each; NaN = no value."""

    tasks: NDArray[np.int64]
    """Numbers of the tasks."""
    families: Sequence[str]
    figures: dict[str, NDArray[np.float64]]
    times: NDArray[np.float64]


def drift(
    pool: PoolReader, *, tenant: Scope, selection: Selection = EVERYTHING, split: float | None = None
) -> Drift | None:
    """Compares the trajectories recorded before and from ``split`` on; None = the first and the second half.

    Returns None where a part has no trajectory.
    """
    rows = _read(pool, tenant, selection)
    count = len(rows.times)
    is_later = np.arange(count) >= count // 2 if split is None else rows.times >= split
    parts = (~is_later, is_later)
    if not all(part.any() for part in parts):
        return None
    found = list(_figures(rows))
    compared = [
        (
            name,
            tuple((values[part & ~np.isnan(values)], rows.tasks[part & ~np.isnan(values)]) for part in parts),
            kind,
        )
        for name, values, kind in found
    ]
    usable = [(name, sides, kind) for name, sides, kind in compared if all(len(values) for values, _ in sides)]
    changes = tuple(
        change(name, sides[0], sides[1], is_share=is_share, level=_LEVEL / len(usable))
        for name, sides, is_share in usable
    )
    first = float(rows.times[is_later].min())
    return Drift(first, (int((~is_later).sum()), int(is_later.sum())), changes)


def change(
    name: str,
    before: tuple[NDArray[np.float64], NDArray[np.int64]],
    after: tuple[NDArray[np.float64], NDArray[np.int64]],
    *,
    is_share: bool,
    level: float,
) -> Change:
    """Returns the change of a mean, with an interval of confidence ``1 - level``.

    ``before``, ``after``: values (n,) and the numbers of their tasks (n,). ``is_share``: the values are 0 or 1.
    """
    from scipy.stats import t

    sides = (before, after)
    means = [float(values.mean()) for values, _ in sides]
    tasks = [len(np.unique(clusters)) for _, clusters in sides]
    low = high = None
    if min(tasks) >= MIN_TASKS:
        centres, variances = zip(*(_mean_and_variance(*side, is_share=is_share) for side in sides), strict=True)
        half = float(t.ppf(1 - level / 2, min(tasks) - 1)) * (variances[0] + variances[1]) ** 0.5
        low, high = centres[1] - centres[0] - half, centres[1] - centres[0] + half
    return Change(name, means[0], means[1], low, high, (len(before[0]), len(after[0])), (tasks[0], tasks[1]))


def _mean_and_variance(
    values: NDArray[np.float64], clusters: NDArray[np.int64], *, is_share: bool
) -> tuple[float, float]:
    """Returns the mean of the values and the variance of that mean over clusters."""
    _, numbers = np.unique(clusters, return_inverse=True)
    sums, sizes = np.bincount(numbers, weights=values), np.bincount(numbers).astype(np.float64)
    if is_share:
        size = sizes.mean()
        sums, sizes = np.append(sums, (0.0, size)), np.append(sizes, (size, size))
    mean = float(sums.sum() / sizes.sum())
    count = len(sizes)
    residuals = sums - mean * sizes
    return mean, float(count / (count - 1) * (residuals**2).sum() / sizes.sum() ** 2)


def _figures(rows: _Rows) -> Iterator[tuple[str, NDArray[np.float64], bool]]:
    """Yields name, values and whether the values are 0 or 1, of each figure with any value."""
    for name, values in rows.figures.items():
        if not np.isnan(values).all():
            yield name, values, name in ("success", "missing")
    largest = Counter(rows.families).most_common(MOST_FAMILIES)
    if len(largest) > 1:
        families = np.array(rows.families)
        for family, _ in largest:
            yield f"family {family}", (families == family).astype(np.float64), True


def _read(pool: PoolReader, tenant: Scope, selection: Selection) -> _Rows:
    table = schema.trajectories
    selected = select_trajectories(selection, tenant, until=2**62).subquery("selected")
    columns = (table.c.turn_count, table.c.written_tokens, table.c.seconds, table.c.recorded_at)
    query = (
        select(table.c.id, table.c.task_id, selected.c.family, selected.c.verdict, *columns)
        .join(selected, selected.c.trajectory_id == table.c.id)
        .order_by(table.c.sequence)
    )
    with pool.engine.connect() as connection:
        rows = connection.execute(query).all()
        costs = recorded_costs(connection, tenant)
    numbers: dict[str, int] = {}
    tasks = [numbers.setdefault(row.task_id, len(numbers)) for row in rows]
    written = _known([row.written_tokens for row in rows])
    figures = {
        "success": np.array(
            [float(row.verdict == "success") if _is_judged(row.verdict) else np.nan for row in rows]
        ),
        "missing": np.array([float(not _is_judged(row.verdict)) for row in rows]),
        "turns": np.array([float(row.turn_count) for row in rows]),
        "written_tokens": written,
        "seconds": _known([row.seconds for row in rows]),
        "cost": np.array([costs.get(row.id, np.nan) for row in rows], dtype=np.float64),
    }
    times = np.array([row.recorded_at for row in rows], dtype=np.float64)
    return _Rows(np.array(tasks, dtype=np.int64), [row.family for row in rows], figures, times)


def _is_judged(verdict: str | None) -> bool:
    return verdict not in (None, "missing")


def _known(values: Sequence[float | None]) -> NDArray[np.float64]:
    """Returns the values; 0 = not recorded."""
    array = np.array([value or 0.0 for value in values], dtype=np.float64)
    array[array == 0] = np.nan
    return array
