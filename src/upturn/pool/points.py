"""The narrow table of data points, from which batches are drawn: a row for each state of a trajectory's evaluation.

A point repeats what criteria ask about, as numbers, so that choosing among points reads no record. What many have
in common (tenant, family, agent version, …) is a stratum. A later evaluation ends a point (``until``) and begins
another one, so the points of any earlier sequence number can be read again.

Points are derived from the records; ``ledger_problems`` compares them.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select, update

from upturn.pool import schema
from upturn.pool.database import Statement, columns_by_id, insert_new


class Stratum(NamedTuple):
    """What points have in common; the columns of ``strata``."""

    tenant: str
    family: str
    environment: str
    split: str
    level: int
    agent: str
    agent_version: str
    origin: str
    outcome: str


@lru_cache(maxsize=4096)
def stratum_id(stratum: Stratum) -> int:
    """Returns its id, a hash: writers of one pool need not agree on a counter."""
    return int.from_bytes(hashlib.sha256(json.dumps(stratum).encode()).digest()[:8], "big") >> 1


def stratum_of(trajectory: Mapping[str, Any], task: Any) -> Stratum:
    """Returns the stratum of a trajectory's row and its task's."""
    version = trajectory["agent_version"]
    return Stratum(
        trajectory["tenant"],
        task.family,
        task.environment,
        task.split,
        task.level,
        version.rpartition("@")[0] or version,
        version,
        trajectory["origin"],
        trajectory["outcome"],
    )


class _Task(NamedTuple):
    family: str
    environment: str
    split: str
    level: int
    sequence: int


def add_points(
    connection: Any, trajectories: Sequence[Mapping[str, Any]], evaluations: Sequence[Mapping[str, Any]]
) -> None:
    """Stores the points of new trajectories and of new evaluations, whose rows are stored already."""
    points: dict[Any, dict[str, Any]] = {}
    strata: dict[int, Stratum] = {}
    for row in trajectories:
        task = _Task(
            *columns_by_id(schema.tasks, _Task._fields).run(connection, [{"id": row["task_id"]}]).fetchone()
        )
        stratum = stratum_of(row, task)
        strata[stratum_id(stratum)] = stratum
        points[row["id"]] = point_of(row, stratum_id(stratum), task.sequence)
    if strata:
        rows = [{"id": number, **stratum._asdict()} for number, stratum in strata.items()]
        insert_new(schema.strata).run(connection, rows)
    for row in evaluations:
        point = points.get(row["trajectory_id"]) or _ended(connection, row)
        points[row["trajectory_id"]] = point | evaluated(row)
    if points:
        insert_new(schema.points).run(connection, list(points.values()))


def point_of(trajectory: Mapping[str, Any], stratum: int, task: int) -> dict[str, Any]:
    """Returns the point of a trajectory without an evaluation; ``task`` is the sequence number of its task."""
    return {
        "sequence": trajectory["sequence"],
        "until": None,
        "stratum": stratum,
        "trajectory": trajectory["sequence"],
        "task": task,
        "evaluation": None,
        "verdict": "missing",
        "score": None,
        "written_tokens": trajectory["written_tokens"],
        "recorded_at": trajectory["recorded_at"],
    }


def evaluated(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what an evaluation changes of its trajectory's point."""
    return {
        "sequence": evaluation["sequence"],
        "evaluation": evaluation["sequence"],
        "verdict": evaluation["verdict"],
        "score": evaluation["score"],
    }


def _ended(connection: Any, evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """Ends the current point of the evaluation's trajectory, and returns its values."""
    row = _current().run(connection, [{"trajectory_id": evaluation["trajectory_id"]}]).fetchone()
    point = dict(zip(schema.points.c.keys(), row, strict=True))
    _end().run(connection, [{"number": point["sequence"], "end": evaluation["sequence"]}])
    return point


@cache
def _current() -> Statement:
    trajectory = select(schema.trajectories.c.sequence).where(
        schema.trajectories.c.id == bindparam("trajectory_id")
    )
    table = schema.points
    query = select(table).where(table.c.trajectory == trajectory.scalar_subquery(), table.c.until.is_(None))
    return Statement(lambda _: query)


@cache
def _end() -> Statement:
    is_point = schema.points.c.sequence == bindparam("number")
    change = update(schema.points).where(is_point).values({"until": bindparam("end")})
    return Statement(lambda _: change)
