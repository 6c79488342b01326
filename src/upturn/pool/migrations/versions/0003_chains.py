"""A chain over the rows of every table of records, starting with the stored rows."""

import hashlib
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_LEDGER = ("tasks", "decisions", "trajectories", "evaluations", "feedback", "agent_versions", "snapshots")


def upgrade() -> None:
    """Creates the table and computes the chains of the stored rows."""
    chains = op.create_table(
        "chains",
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
    )
    connection = op.get_bind()
    for kind in (*_LEDGER, "history"):
        parts = ["kind", "record_id", "fields"] if kind == "history" else ["id", "digest"]
        floats = ["recorded_at", "seconds"] if kind == "trajectories" else ["recorded_at"]
        table = sa.table(kind, *(sa.column(name) for name in (*parts, "sequence", *floats)))
        count, head = 0, ""
        for row in connection.execute(sa.select(table).order_by(table.c.sequence)):
            values: list[Any] = list(row)
            texts = [*values[: len(parts) + 1], *(repr(float(value)) for value in values[len(parts) + 1 :])]
            count, head = count + 1, _digest(head, *map(str, texts))
        if count:
            connection.execute(sa.insert(chains), {"kind": kind, "row_count": count, "head": head})


def downgrade() -> None:
    """Drops the chains; an upgrade computes them from the rows that there are then."""
    op.drop_table("chains")


def _digest(*texts: str) -> str:
    hasher = hashlib.sha256()
    for text in texts:
        encoded = text.encode(errors="surrogatepass")
        hasher.update(len(encoded).to_bytes(8, "big") + encoded)
    return hasher.hexdigest()
