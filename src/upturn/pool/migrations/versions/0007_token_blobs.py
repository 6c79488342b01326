"""Token rows are packed, with the prompts that they share in a table of blobs. Digests of records stay the same."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

from upturn.errors import RecordError
from upturn.pool.tokens.codec import pack_text, references, rows_json

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_ROWS_AT_ONCE = 100
"""A row of a long trajectory has some 100 kB."""

_TRAJECTORIES = sa.table(
    "trajectories", *(sa.column(name) for name in ("id", "tenant", "sequence", "rows")), sa.column("tokens")
)
_BLOBS = sa.table("token_blobs", sa.column("tenant"), sa.column("digest"), sa.column("data"))


def upgrade() -> None:
    """Packs the rows of all trajectories."""
    op.create_table(
        "token_blobs",
        sa.Column("tenant", sa.Text(), primary_key=True),
        sa.Column("digest", sa.LargeBinary(), primary_key=True),
        sa.Column("data", sa.LargeBinary(), nullable=False),
    )
    op.add_column("trajectories", sa.Column("tokens", sa.LargeBinary(), nullable=True))
    _convert(_TRAJECTORIES.c.rows, _TRAJECTORIES.c.tokens, _pack)
    op.drop_column("trajectories", "rows")


def downgrade() -> None:
    """Writes all rows as JSON again; raises RecordError for a trajectory whose rows are damaged."""
    op.add_column("trajectories", sa.Column("rows", sa.Text(), nullable=True))
    _convert(_TRAJECTORIES.c.tokens, _TRAJECTORIES.c.rows, _unpack)
    with op.batch_alter_table("trajectories") as table:
        table.drop_column("tokens")
        table.alter_column("rows", existing_type=sa.Text(), nullable=False)
    op.drop_table("token_blobs")


def _convert(
    source: sa.ColumnClause[Any], target: sa.ColumnClause[Any], convert: Callable[[Any, Any], str | bytes | None]
) -> None:
    """Sets the target to what ``convert`` returns for each row with its source, a few rows at a time."""
    connection = op.get_bind()
    table = _TRAJECTORIES.c
    query = sa.select(table.id, table.tenant, table.sequence, source.label("source")).order_by(table.sequence)
    change = sa.update(_TRAJECTORIES).where(table.id == sa.bindparam("row_id"))
    change = change.values({target.name: sa.bindparam("new")})
    last = 0
    while rows := connection.execute(query.where(table.sequence > last).limit(_ROWS_AT_ONCE)).all():
        connection.execute(change, [{"row_id": row.id, "new": convert(connection, row)} for row in rows])
        last = rows[-1].sequence


def _pack(connection: sa.Connection, row: Any) -> bytes | None:
    if row.source == "[]":
        return None
    packed = pack_text(row.source)
    for blob in packed.blobs:
        key = {"tenant": row.tenant, "digest": blob.digest}
        is_key = (_BLOBS.c.tenant == row.tenant, _BLOBS.c.digest == blob.digest)
        if connection.execute(sa.select(_BLOBS.c.digest).where(*is_key)).first() is None:
            connection.execute(sa.insert(_BLOBS), key | {"data": blob.data})
    return packed.data


def _unpack(connection: sa.Connection, row: Any) -> str:
    if row.source is None:
        return "[]"
    query = sa.select(_BLOBS.c.digest, _BLOBS.c.data).where(_BLOBS.c.tenant == row.tenant)
    try:
        digests = references(row.source)
        stored = connection.execute(query.where(_BLOBS.c.digest.in_(digests))).all()
        return rows_json(row.source, {blob.digest: blob.data for blob in stored})
    except RecordError as exc:
        raise RecordError(f"the trajectory {row.id!r} is damaged: {exc}; restore a copy of the pool") from exc
