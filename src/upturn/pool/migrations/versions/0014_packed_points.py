"""Data points as numbers of a fixed width, with turns, tokens and seconds; ids beside the numbers of records."""

import struct
from collections.abc import Callable, Mapping
from math import isnan, nan
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_ROWS_AT_ONCE = 2_000
_CELL = struct.Struct("<qqqqdddiiiib")
_VERDICTS = ("missing", "success", "failure")
_COVERED = {"trajectories": ("id", "task_id"), "evaluations": ("id",)}


def _table(name: str, *columns: str) -> Any:
    return sa.table(name, *(sa.column(column) for column in columns))


_OLD = _table(
    "points", "sequence", "until", "stratum", "trajectory", "task", "evaluation", "verdict", "score",
    "written_tokens", "recorded_at",
)  # fmt: skip
_NEW = _table("points", "sequence", "until", "trajectory", "packed")
_TRAJECTORIES = _table("trajectories", "sequence", "turn_count", "tool_turns", "prompt_tokens", "seconds")


def upgrade() -> None:
    """Packs the points, with what statistics need of their trajectories."""
    _index(_COVERED)
    columns = [column for column in _TRAJECTORIES.c if column.name != "sequence"]
    query = sa.select(_OLD, *columns).join(_TRAJECTORIES, _TRAJECTORIES.c.sequence == _OLD.c.trajectory)
    _rebuild("points_packed", [sa.Column("packed", sa.LargeBinary(), nullable=False)], query, _packed)


def downgrade() -> None:
    """Unpacks them; what the trajectories have is dropped."""
    _index(dict.fromkeys(_COVERED, ()))
    columns: list[sa.Column[Any]] = [
        sa.Column("stratum", sa.BigInteger(), nullable=False),
        sa.Column("task", sa.BigInteger(), nullable=False),
        sa.Column("evaluation", sa.BigInteger(), nullable=True),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("written_tokens", sa.Integer(), nullable=False),
        sa.Column("recorded_at", sa.Float(), nullable=False),
    ]
    _rebuild("points_wide", columns, sa.select(_NEW), _unpacked)


def _index(covered: Mapping[str, tuple[str, ...]]) -> None:
    for table, columns in covered.items():
        op.drop_index(f"ix_{table}_sequence", table)
        op.create_index(f"ix_{table}_sequence", table, ["sequence", *columns])


def _rebuild(
    name: str, columns: list[sa.Column[Any]], query: Any, convert: Callable[[Any], dict[str, Any]]
) -> None:
    """Replaces the table of points by one with these columns and the converted rows of ``query``.

    ``name``: until it is in the other's place. PostgreSQL keeps it in the name of the primary key.
    """
    connection = op.get_bind()
    table = op.create_table(
        name,
        sa.Column("sequence", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("trajectory", sa.BigInteger(), nullable=False),
        *columns,
    )
    number = query.selected_columns.sequence
    last = 0
    page = query.order_by(number).limit(_ROWS_AT_ONCE)
    while rows := connection.execute(page.where(number > last)).mappings().all():
        shared = ("sequence", "until", "trajectory")
        connection.execute(sa.insert(table), [{key: row[key] for key in shared} | convert(row) for row in rows])
        last = rows[-1]["sequence"]
    op.drop_table("points")
    op.rename_table(name, "points")
    op.create_index("ix_points_trajectory", "points", ["trajectory"])


def _packed(row: Any) -> dict[str, Any]:
    score = nan if row["score"] is None else row["score"]
    numbers = (row["trajectory"], row["task"], row["stratum"], row["evaluation"] or 0)
    times = (score, row["recorded_at"], row["seconds"])
    counts = (row["prompt_tokens"], row["written_tokens"], row["turn_count"], row["tool_turns"])
    return {"packed": _CELL.pack(*numbers, *times, *counts, _VERDICTS.index(row["verdict"]))}


def _unpacked(row: Any) -> dict[str, Any]:
    _, task, stratum, evaluation, score, recorded_at, _, _, written, _, _, verdict = _CELL.unpack(row["packed"])
    return {
        "stratum": stratum,
        "task": task,
        "evaluation": evaluation or None,
        "verdict": _VERDICTS[verdict],
        "score": None if isnan(score) else score,
        "written_tokens": written,
        "recorded_at": recorded_at,
    }
