"""The successes of a tenant: what may be found, read from the narrow tables and the tasks' instructions."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pydantic_core import from_json
from sqlalchemy import Engine, func, select

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
    conditions: list[Any] = [strata.c.tenant == tenant, strata.c.split == "train", points.c.verdict == "success"]
    if bound is not None:
        conditions.append(points.c.sequence <= bound)
    if families:
        conditions.append(strata.c.family.in_(families))
    columns = (points.c.task, points.c.trajectory, points.c.score, points.c.written_tokens, points.c.sequence)
    query = (
        select(*columns, points.c.until)
        .join_from(points, strata, strata.c.id == points.c.stratum)
        .where(*conditions)
        .order_by(points.c.sequence.desc())
        .limit(MOST_SUCCESSES)
    )
    with engine.connect() as connection:
        rows = connection.execute(query).all()
    # without a score, a success is a whole one
    return [Success(row[0], row[1], 1.0 if row[2] is None else row[2], *row[3:]) for row in reversed(rows)]


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
