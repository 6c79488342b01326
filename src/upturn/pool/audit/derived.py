"""Whether rows that are derived from records are what they should be: points of batches, and embeddings."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from upturn.pool import schema
from upturn.pool.audit.problem import Problem
from upturn.pool.points import Point, point_of, stratum_id, stratum_of

_ROWS_AT_ONCE = 500
_LENGTH_ERROR = 1e-3
"""Of an embedding's squared length, which is 1."""


def point_problems(connection: Connection) -> Iterator[Problem]:
    """Yields the trajectories whose current point differs from their records, and a wrong number of points."""
    table = schema.trajectories
    wanted = (table.c.id, table.c.tenant, table.c.agent_version, table.c.origin, table.c.outcome)
    used = (table.c.prompt_tokens, table.c.written_tokens, table.c.turn_count, table.c.tool_turns, table.c.seconds)
    stored_as = (table.c.recorded_at, table.c.sequence)
    task = schema.tasks.c
    described = (task.family, task.environment, task.split, task.level, task.sequence.label("task"))
    query = select(*wanted, *used, *stored_as, *described).join(schema.tasks, task.id == table.c.task_id)
    query = query.order_by(table.c.sequence).limit(_ROWS_AT_ONCE)
    last = 0
    while rows := connection.execute(query.where(table.c.sequence > last)).all():
        expected = _expected(connection, rows)
        stored = _stored(connection, [row.sequence for row in rows])
        for row in rows:
            if stored.get(row.sequence) != expected[row.sequence]:
                yield Problem("points", row.id, "was changed after it was stored: it is not what the records say")
        last = rows[-1].sequence
    current = select(func.count()).select_from(schema.points).where(schema.points.c.until.is_(None))
    count = connection.execute(current).scalar_one()
    trajectories = connection.execute(select(func.count()).select_from(table)).scalar_one()
    if count != trajectories:
        yield Problem(
            "points", "", f"has {count} current rows for {trajectories} trajectories; rows were added or deleted"
        )


def embedding_problems(connection: Connection) -> Iterator[Problem]:
    """Yields the stored embeddings that are no vectors of length 1, or of another size than their model's first."""
    sizes: dict[tuple[str, str], int] = {}
    table = schema.embeddings
    query = select(table).order_by(*table.primary_key).execution_options(yield_per=_ROWS_AT_ONCE)
    for row in connection.execute(query):
        vector = np.frombuffer(row.vector[: len(row.vector) // 4 * 4], "<f4").astype(np.float64)
        size = sizes.setdefault((row.tenant, row.model), len(row.vector))
        if len(row.vector) != size or len(row.vector) % 4 or not abs(vector @ vector - 1.0) < _LENGTH_ERROR:
            name = f"{row.tenant} {row.model} {row.digest}"
            yield Problem("embeddings", name, "was changed after it was stored: it is no vector of its model")


def _expected(connection: Connection, rows: Any) -> dict[int, tuple[int, bytes]]:
    """Returns the sequence number and the bytes of each trajectory's current point, by its sequence number."""
    sequences = {row.id: row.sequence for row in rows}
    points: dict[int, tuple[int, Point]] = {
        row.sequence: (
            row.sequence,
            point_of(row._asdict(), stratum_id(stratum_of(row._asdict(), row)), row.task),
        )
        for row in rows
    }
    table = schema.evaluations
    query = select(table.c.trajectory_id, table.c.verdict, table.c.score, table.c.sequence)
    for row in connection.execute(
        query.where(table.c.trajectory_id.in_(list(sequences))).order_by(table.c.sequence)
    ):
        trajectory = sequences[row.trajectory_id]
        points[trajectory] = row.sequence, points[trajectory][1].evaluated(row._asdict())
    return {trajectory: (number, point.pack()) for trajectory, (number, point) in points.items()}


def _stored(connection: Connection, sequences: list[int]) -> dict[int, tuple[int, bytes]]:
    table = schema.points.c
    query = select(table.trajectory, table.sequence, table.packed)
    query = query.where(table.trajectory.in_(sequences), table.until.is_(None))
    return {row.trajectory: (row.sequence, row.packed) for row in connection.execute(query)}
