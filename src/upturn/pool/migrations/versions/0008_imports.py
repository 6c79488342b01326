"""Progress of imports, texts of quarantined lines, and places of equal conversations."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds columns and a table; earlier imports are complete."""
    op.add_column("imports", sa.Column("is_complete", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("imports", sa.Column("state", sa.Text(), nullable=False, server_default=""))
    op.add_column("quarantine", sa.Column("text", sa.Text(), nullable=True))
    op.create_table(
        "places",
        sa.Column("tenant", sa.Text(), primary_key=True),
        sa.Column("content", sa.Text(), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
    )


def downgrade() -> None:
    """Drops them, and imports that are not complete, which are then imported again."""
    op.execute("DELETE FROM imports WHERE is_complete = 0")
    op.drop_table("places")
    op.drop_column("quarantine", "text")
    op.drop_column("imports", "state")
    op.drop_column("imports", "is_complete")
