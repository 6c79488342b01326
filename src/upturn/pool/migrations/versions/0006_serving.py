"""Snapshots of routers, and limits that operators set for agents."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates both tables."""
    op.create_table(
        "router_states",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", sa.Float(), nullable=False),
    )
    op.create_table(
        "agent_limits",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("fields", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", sa.Float(), nullable=False),
    )
    op.create_index("ix_agent_limits_sequence", "agent_limits", ["sequence"])


def downgrade() -> None:
    """Drops both tables; the earlier limits stay in the history."""
    op.drop_table("agent_limits")
    op.drop_table("router_states")
