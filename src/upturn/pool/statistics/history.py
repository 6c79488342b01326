"""Success, tokens and time of trajectories over the time at which they were recorded."""

from typing import NamedTuple

import numpy as np

from upturn.pool.points import VERDICTS, select_points
from upturn.pool.reader import PoolReader
from upturn.pool.selection import EVERYTHING, Scope, Selection

HOUR, DAY, WEEK = 3_600, 86_400, 604_800
_MOST_PERIODS = 60


class Period(NamedTuple):
    """What was recorded in one hour, day or week."""

    start: int
    """UTC, seconds since 1970."""
    seconds: int
    """Length of the period."""
    trajectories: int
    successes: int
    missing: int
    """Trajectories without a verdict."""
    prompt_tokens: int
    written_tokens: int
    work_seconds: float
    """Wall-clock time of the trajectories together."""


def history(pool: PoolReader, *, tenant: Scope, selection: Selection = EVERYTHING) -> tuple[Period, ...]:
    """Returns the periods with trajectories, the earliest first.

    They are hours, days or weeks: the shortest of which at most 60 cover the time, or weeks.
    """
    with pool.engine.connect() as connection:
        points = select_points(connection, selection, tenant=tenant)
    times = points.column("recorded_at")
    if not len(times):
        return ()
    covered = float(times.max() - times.min())
    length = next((length for length in (HOUR, DAY) if covered <= length * _MOST_PERIODS), WEEK)
    starts, place = np.unique(times // length, return_inverse=True)
    verdicts = points.rows["verdict"]
    columns = (
        np.ones(len(times)),
        verdicts == VERDICTS.index("success"),
        verdicts == VERDICTS.index("missing"),
        points.rows["prompt_tokens"],
        points.rows["written_tokens"],
        points.rows["seconds"],
    )
    sums = [np.bincount(place, weights=column).tolist() for column in columns]
    periods: list[Period] = []
    for start, *counts, work_seconds in zip(starts.tolist(), *sums, strict=True):
        trajectories, successes, missing, prompt, written = map(int, counts)
        begin = int(start) * length
        periods.append(Period(begin, length, trajectories, successes, missing, prompt, written, work_seconds))
    return tuple(periods)
