"""The successes of a tenant: what may be found, read from the narrow tables and the tasks' instructions."""

from collections.abc import Iterator, Sequence
from itertools import islice
from math import isnan
from typing import NamedTuple

from pydantic_core import from_json
from sqlalchemy import Engine, func, select

from upturn.pool.points import VERDICTS, Point, field_among
from upturn.pool.schema import points, strata, tasks

MOST_SUCCESSES = 200_000
"""Only the latest ones are found: their vectors take 100 MB."""
_IDS_PER_QUERY = 500


class Success(NamedTuple):
    """A trajectory's evaluation as a success, for as long as it was the latest one. Numbers are of the sequence."""

    task: int
    trajectory: int
    score: float
    written_tokens: int
    since: int
    """When it was known."""
    until: int | None
    """When a later evaluation came; None = it is the latest."""


class Goal(NamedTuple):
    """What a success was asked to do."""

    task_id: str
    instruction: str
    family: str
    episode: str | None


def read_successes(
    engine: Engine, *, tenant: str, families: Sequence[str] = (), bound: int | None = None
) -> list[Success]:
    """Returns the tenant's successes in the order of arrival, without held-out tasks.

    ``families``: () = all. ``bound``: only those up to this sequence number of the pool; None = all.
    """
    wanted = select(strata.c.id).where(strata.c.tenant == tenant, strata.c.split == "train")
    if families:
        wanted = wanted.where(strata.c.family.in_(families))
    query = select(points.c.packed, points.c.sequence, points.c.until).order_by(points.c.sequence.desc())
    query = query.where(*field_among("verdict", [VERDICTS.index("success")]))
    if bound is not None:
        query = query.where(points.c.sequence <= bound)
    with engine.connect() as connection:
        ids = set(connection.execute(wanted).scalars())
        rows = connection.execute(query.where(*field_among("stratum", sorted(ids))))
        read = ((Point.unpack(packed), since, until) for packed, since, until in rows)
        latest = list(islice((row for row in read if row[0].stratum in ids), MOST_SUCCESSES))
    return [_success(*row) for row in reversed(latest)]


def _success(point: Point, since: int, until: int | None) -> Success:
    score = 1.0 if isnan(point.score) else point.score  # without a score, a success is a whole one
    return Success(point.task, point.trajectory, score, point.written_tokens, since, until)


def last_point(engine: Engine) -> int:
    """Returns the last sequence number of the pool at which a success may have come; 0 = there is none."""
    with engine.connect() as connection:
        return connection.execute(select(func.max(points.c.sequence))).scalar() or 0


def read_goals(engine: Engine, sequences: Sequence[int], *, tenant: str) -> dict[int, Goal]:
    """Returns what tasks of the tenant ask for, by their sequence numbers."""
    goals: dict[int, Goal] = {}
    columns = (tasks.c.sequence, tasks.c.id, tasks.c.family, tasks.c.fields)
    with engine.connect() as connection:
        for page in _pages(sequences):
            query = select(*columns).where(tasks.c.sequence.in_(page), tasks.c.tenant == tenant)
            for row in connection.execute(query):
                fields = from_json(row.fields)
                goals[row.sequence] = Goal(row.id, fields["instruction"], row.family, fields.get("episode"))
    return goals


def _pages(items: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(items), _IDS_PER_QUERY):
        yield items[start : start + _IDS_PER_QUERY]
