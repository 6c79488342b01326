"""Model calls of clients, what was said in them, and the state of tasks that clients submit."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def _shared_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("fields", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", sa.Float(), nullable=False),
    ]


def upgrade() -> None:
    """Creates the tables."""
    op.create_table(
        "calls",
        sa.Column("id", sa.Text(), primary_key=True),
        *(
            sa.Column(name, sa.Text(), nullable=False)
            for name in ("tenant", "episode", "agent_version", "status", "key", "prefix")
        ),
        sa.Column("cost_usd", sa.Float(), nullable=True),
        *_shared_columns(),
    )
    op.create_index("ix_calls_sequence", "calls", ["sequence"])
    op.create_index("ix_calls_tenant_episode", "calls", ["tenant", "episode", "sequence"])
    op.create_index("ix_calls_tenant_prefix", "calls", ["tenant", "prefix"])
    op.create_table(
        "call_contents",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("tenant", sa.Text(), nullable=False),
        *_shared_columns(),
    )
    op.create_index("ix_call_contents_sequence", "call_contents", ["sequence"])
    op.create_index("ix_call_contents_recorded", "call_contents", ["recorded_at"])
    op.create_table(
        "submissions",
        sa.Column("task_id", sa.Text(), primary_key=True),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("tenant", "key", "state", "reason")),
        sa.Column("updated_at", sa.Float(), nullable=False),
    )
    op.create_index("ix_submissions_state", "submissions", ["state", "updated_at"])


def downgrade() -> None:
    """Drops the tables, and the chain of calls."""
    for name in ("submissions", "call_contents", "calls"):
        op.drop_table(name)
    op.execute("DELETE FROM chains WHERE kind = 'calls'")
