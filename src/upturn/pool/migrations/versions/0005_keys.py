"""API keys of the gateway, and the acts of operators."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates both tables."""
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("fields", sa.Text(), nullable=False),
    )
    op.create_index("ix_api_keys_tenant", "api_keys", ["tenant"])
    op.create_table(
        "admin_acts",
        sa.Column("sequence", sa.BigInteger(), primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("kind", "record_id", "tenant", "act", "fields")),
        sa.Column("recorded_at", sa.Float(), nullable=False),
    )
    op.create_index("ix_admin_acts_record", "admin_acts", ["kind", "record_id"])


def downgrade() -> None:
    """Drops both tables, and the chain of acts."""
    op.drop_table("admin_acts")
    op.drop_table("api_keys")
    op.execute("DELETE FROM chains WHERE kind = 'admin_acts'")
