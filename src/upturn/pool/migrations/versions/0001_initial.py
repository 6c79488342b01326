"""The initial tables. Never changed after a release: a change is a later revision."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


_TABLES = (
    "tasks",
    "decisions",
    "trajectories",
    "evaluations",
    "feedback",
    "agent_versions",
    "releases",
    "runs",
    "snapshots",
    "history",
    "rollouts",
    "imports",
    "quarantine",
)


def _text(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _integer(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.Integer(), nullable=False) for name in names]


def _real(*names: str) -> list[sa.Column[float]]:
    return [sa.Column(name, sa.Float(), nullable=False) for name in names]


def _ledger(name: str, *columns: sa.Column[str] | sa.Column[int] | sa.Column[float]) -> None:
    op.create_table(
        name,
        sa.Column("id", sa.Text(), primary_key=True),
        *columns,
        *_text("fields", "digest"),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        *_real("recorded_at"),
    )
    op.create_index(f"ix_{name}_sequence", name, ["sequence"])


def _create_evidence() -> None:
    _ledger("tasks", *_text("tenant", "family", "environment", "split"), *_integer("level"))
    op.create_index("ix_tasks_tenant_family", "tasks", ["tenant", "family"])
    _ledger(
        "decisions",
        *_text("tenant", "task_id", "family", "chosen"),
        *_real("propensity"),
        sa.Column("episode", sa.Text()),
        sa.Column("release_id", sa.Text()),
        sa.Column("arm", sa.Text()),
    )
    op.create_index("ix_decisions_task", "decisions", ["task_id", "chosen"])
    op.create_index("ix_decisions_tenant", "decisions", ["tenant", "sequence"])
    _ledger(
        "trajectories",
        *_text("tenant", "task_id", "agent_version", "origin", "outcome"),
        *_integer("turn_count", "tool_turns", "prompt_tokens", "written_tokens"),
        *_real("seconds"),
        *_text("turns", "rows"),
    )
    op.create_index("ix_trajectories_task", "trajectories", ["task_id", "agent_version"])
    op.create_index("ix_trajectories_tenant", "trajectories", ["tenant", "sequence"])
    op.create_index("ix_trajectories_agent", "trajectories", ["agent_version"])
    _ledger(
        "evaluations",
        *_text("tenant", "task_id", "trajectory_id", "evaluator", "verdict"),
        sa.Column("score", sa.Float()),
    )
    op.create_index("ix_evaluations_trajectory", "evaluations", ["trajectory_id", "sequence"])
    _ledger("feedback", *_text("tenant", "subject_kind", "subject_id", "metric"), *_real("value"))
    op.create_index("ix_feedback_subject", "feedback", ["subject_kind", "subject_id"])


def _create_operator_records() -> None:
    _ledger("agent_versions", *_text("agent", "kind"))
    _ledger("releases", *_text("agent", "candidate", "state"))
    _ledger("runs", *_text("command", "state"))
    _ledger("snapshots")
    op.create_table(
        "history",
        sa.Column("sequence", sa.BigInteger(), primary_key=True, autoincrement=False),
        *_text("kind", "record_id", "fields"),
        *_real("recorded_at"),
    )
    op.create_index("ix_history_record", "history", ["kind", "record_id"])


def _create_logs() -> None:
    op.create_table(
        "rollouts",
        sa.Column("run", sa.Text(), primary_key=True),
        sa.Column("iteration", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer(), primary_key=True, autoincrement=False),
        *_text("trajectory_id", "evaluation_id"),
    )
    op.create_index("ix_rollouts_trajectory", "rollouts", ["trajectory_id"])
    op.create_table(
        "imports",
        sa.Column("tenant", sa.Text(), primary_key=True),
        sa.Column("source", sa.Text(), primary_key=True),
        *_text("path"),
        *_integer("lines", "accepted", "quarantined"),
        *_real("recorded_at"),
    )
    op.create_table(
        "quarantine",
        sa.Column("tenant", sa.Text(), primary_key=True),
        sa.Column("source", sa.Text(), primary_key=True),
        sa.Column("line", sa.Integer(), primary_key=True, autoincrement=False),
        *_text("reason"),
        *_real("recorded_at"),
    )


def upgrade() -> None:
    """Creates all tables of the first release."""
    _create_evidence()
    _create_operator_records()
    _create_logs()


def downgrade() -> None:
    """Drops the tables."""
    for name in _TABLES:
        op.drop_table(name)
