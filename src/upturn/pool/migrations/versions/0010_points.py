"""Narrow tables of data points, from which batches are drawn; computed from the stored records."""

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_ROWS_AT_ONCE = 500

_SHARED = ("tenant", "family", "environment", "split", "level", "agent", "agent_version", "origin", "outcome")


def _table(name: str, *columns: str) -> Any:
    return sa.table(name, *(sa.column(column) for column in columns))


_TASKS = _table("tasks", "id", "family", "environment", "split", "level", "sequence")
_TRAJECTORIES = _table(
    "trajectories", "id", "task_id", "tenant", "agent_version", "origin", "outcome", "written_tokens", "sequence",
    "recorded_at",
)  # fmt: skip
_EVALUATIONS = _table("evaluations", "trajectory_id", "verdict", "score", "sequence")
_STRATA = _table("strata", "id", *_SHARED)
_POINTS = _table(
    "points", "sequence", "until", "stratum", "trajectory", "task", "evaluation", "verdict", "score",
    "written_tokens", "recorded_at",
)  # fmt: skip


def upgrade() -> None:
    """Creates the tables and the points of all trajectories."""
    text, number = sa.Text(), sa.BigInteger()
    op.create_table(
        "strata",
        sa.Column("id", number, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Integer() if name == "level" else text, nullable=False) for name in _SHARED),
    )
    op.create_table(
        "points",
        sa.Column("sequence", number, primary_key=True, autoincrement=False),
        sa.Column("until", number, nullable=True),
        sa.Column("stratum", number, nullable=False),
        sa.Column("trajectory", number, nullable=False),
        sa.Column("task", number, nullable=False),
        sa.Column("evaluation", number, nullable=True),
        sa.Column("verdict", text, nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("written_tokens", sa.Integer(), nullable=False),
        sa.Column("recorded_at", sa.Float(), nullable=False),
    )
    op.create_index("ix_points_trajectory", "points", ["trajectory"])
    _fill(op.get_bind())


def downgrade() -> None:
    """Drops the tables; all that they have is in the records."""
    op.drop_table("points")
    op.drop_table("strata")


def _fill(connection: sa.Connection) -> None:
    columns = [column for column in _TRAJECTORIES.c if column.name not in {"id", "task_id"}]
    tasks = [_TASKS.c[name] for name in ("family", "environment", "split", "level")]
    query = sa.select(_TRAJECTORIES.c.id, *columns, *tasks, _TASKS.c.sequence.label("task"))
    query = query.select_from(_TRAJECTORIES.join(_TASKS, _TASKS.c.id == _TRAJECTORIES.c.task_id))
    query = query.order_by(_TRAJECTORIES.c.sequence).limit(_ROWS_AT_ONCE)
    strata: set[int] = set()
    last = 0
    while rows := connection.execute(query.where(_TRAJECTORIES.c.sequence > last)).mappings().all():
        stored = {row["id"]: _stratum(row) for row in rows}
        new = {stratum["id"]: stratum for stratum in stored.values() if stratum["id"] not in strata}
        if new:
            connection.execute(sa.insert(_STRATA), list(new.values()))
            strata |= new.keys()
        ids = list(stored)
        listed = sa.select(_EVALUATIONS).where(_EVALUATIONS.c.trajectory_id.in_(ids))
        evaluations: dict[str, list[Any]] = {}
        for evaluation in connection.execute(listed.order_by(_EVALUATIONS.c.sequence)):
            evaluations.setdefault(evaluation.trajectory_id, []).append(evaluation)
        points = [
            point for row in rows for point in _points(row, stored[row["id"]]["id"], evaluations.get(row["id"], []))
        ]
        connection.execute(sa.insert(_POINTS), points)
        last = rows[-1]["sequence"]


def _stratum(row: Any) -> dict[str, Any]:
    agent = row["agent_version"].rpartition("@")[0] or row["agent_version"]
    values = {name: agent if name == "agent" else row[name] for name in _SHARED}
    hashed = hashlib.sha256(json.dumps(list(values.values())).encode()).digest()
    return {"id": int.from_bytes(hashed[:8], "big") >> 1, **values}


def _points(row: Any, stratum: int, evaluations: list[Any]) -> list[dict[str, Any]]:
    """Returns a point for each evaluation, or the one of a trajectory without any."""
    shared = {
        "stratum": stratum,
        "trajectory": row["sequence"],
        "task": row["task"],
        "written_tokens": row["written_tokens"],
        "recorded_at": row["recorded_at"],
    }
    if not evaluations:
        none = {"evaluation": None, "verdict": "missing", "score": None}
        return [{"sequence": row["sequence"], "until": None, **shared, **none}]
    ends = [evaluation.sequence for evaluation in evaluations[1:]]
    return [
        {
            "sequence": evaluation.sequence,
            "until": until,
            **shared,
            "evaluation": evaluation.sequence,
            "verdict": evaluation.verdict,
            "score": evaluation.score,
        }
        for evaluation, until in zip(evaluations, [*ends, None], strict=True)
    ]
