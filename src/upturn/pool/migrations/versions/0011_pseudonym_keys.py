"""The secret keys of pseudonyms."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the table."""
    op.create_table(
        "pseudonym_keys",
        sa.Column("tenant", sa.Text(), primary_key=True),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("recorded_at", sa.Float(), nullable=False),
    )


def downgrade() -> None:
    """Drops the table with its keys: later exports have other pseudonyms."""
    op.drop_table("pseudonym_keys")
