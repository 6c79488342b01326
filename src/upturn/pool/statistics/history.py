"""Success, tokens and time of trajectories over the time at which they were recorded."""

from collections import defaultdict
from typing import NamedTuple

from sqlalchemy import select

from upturn.pool import schema
from upturn.pool.reader import PoolReader
from upturn.pool.selection import EVERYTHING, Scope, Selection, select_trajectories

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
    table = schema.trajectories
    selected = select_trajectories(selection, tenant, until=2**62).subquery("selected")
    columns = (table.c.prompt_tokens, table.c.written_tokens, table.c.seconds)
    query = select(table.c.recorded_at, selected.c.verdict, *columns).join(
        selected, selected.c.trajectory_id == table.c.id
    )
    with pool.engine.connect() as connection:
        rows = connection.execute(query).all()
    if not rows:
        return ()
    times = [row.recorded_at for row in rows]
    covered = max(times) - min(times)
    length = next((length for length in (HOUR, DAY) if covered <= length * _MOST_PERIODS), WEEK)
    sums = defaultdict[int, list[float]](lambda: [0.0] * 6)
    for row in rows:
        entry = sums[int(row.recorded_at // length) * length]
        values = (1, row.verdict == "success", row.verdict == "missing", *row[2:])
        for index, value in enumerate(values):
            entry[index] += float(value)
    periods: list[Period] = []
    for start, (*counts, work_seconds) in sorted(sums.items()):
        trajectories, successes, missing, prompt_tokens, written_tokens = map(int, counts)
        tokens = (prompt_tokens, written_tokens)
        periods.append(Period(start, length, trajectories, successes, missing, *tokens, work_seconds))
    return tuple(periods)
