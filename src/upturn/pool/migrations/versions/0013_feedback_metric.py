"""The feedback of a metric, such as a tag, is found by an index."""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the index."""
    op.create_index("ix_feedback_metric", "feedback", ["metric", "sequence"])


def downgrade() -> None:
    """Drops it."""
    op.drop_index("ix_feedback_metric", "feedback")
