"""Storing the points of new trajectories and of new evaluations."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select, update

from upturn.pool import schema
from upturn.pool.database import Statement, insert_new, insert_rows
from upturn.pool.points.point import Point, Stratum, point_of, stratum_id, stratum_of


class StoredTask(NamedTuple):
    """What points have of their task's row."""

    tenant: str
    family: str
    environment: str
    split: str
    level: int
    sequence: int


def add_points(
    connection: Any,
    trajectories: Sequence[Mapping[str, Any]],
    evaluations: Sequence[Mapping[str, Any]],
    tasks: Mapping[Any, StoredTask],
) -> None:
    """Stores the points of new trajectories and of new evaluations, whose rows are stored already.

    ``tasks``: those of the trajectories, by id.
    """
    points: dict[Any, Point] = {}
    numbers: dict[Any, int] = {}
    """Sequence number of each point, by the id of its trajectory."""
    strata: dict[int, Stratum] = {}
    for row in trajectories:
        task = tasks[row["task_id"]]
        stratum = stratum_of(row, task)
        number = stratum_id(stratum)
        strata[number] = stratum
        points[row["id"]] = point_of(row, number, task.sequence)
        numbers[row["id"]] = row["sequence"]
    if strata:
        rows = [{"id": number, **stratum._asdict()} for number, stratum in strata.items()]
        insert_new(schema.strata).run(connection, rows)
    for row in evaluations:
        point = points.get(row["trajectory_id"]) or _ended(connection, row)
        points[row["trajectory_id"]] = point.evaluated(row)
        numbers[row["trajectory_id"]] = row["sequence"]
    if points:
        insert_rows(connection, schema.points, [_row(numbers[name], point) for name, point in points.items()])


def _row(number: int, point: Point) -> dict[str, Any]:
    return {"sequence": number, "until": None, "trajectory": point.trajectory, "packed": point.pack()}


def _ended(connection: Any, evaluation: Mapping[str, Any]) -> Point:
    """Ends the current point of the evaluation's trajectory, and returns it."""
    row = _current().run(connection, [{"trajectory_id": evaluation["trajectory_id"]}]).fetchone()
    _end().run(connection, [{"number": row[0], "end": evaluation["sequence"]}])
    return Point.unpack(row[1])


@cache
def _current() -> Statement:
    trajectory = select(schema.trajectories.c.sequence).where(
        schema.trajectories.c.id == bindparam("trajectory_id")
    )
    table = schema.points.c
    query = select(table.sequence, table.packed)
    query = query.where(table.trajectory == trajectory.scalar_subquery(), table.until.is_(None))
    return Statement(lambda _: query)


@cache
def _end() -> Statement:
    is_point = schema.points.c.sequence == bindparam("number")
    change = update(schema.points).where(is_point).values({"until": bindparam("end")})
    return Statement(lambda _: change)
