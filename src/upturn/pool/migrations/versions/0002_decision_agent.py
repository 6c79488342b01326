"""Decisions get the field ``agent``, from their version, and the digest of the changed record."""

import hashlib
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op
from pydantic_core import from_json, to_json

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_ROWS_AT_ONCE = 1000

_DECISIONS = sa.table("decisions", *(sa.column(name) for name in ("id", "chosen", "fields", "digest", "sequence")))
_VERSIONS = sa.table("agent_versions", sa.column("id"), sa.column("agent"))


def upgrade() -> None:
    """Adds the agent to every stored decision; nothing else changes."""
    connection = op.get_bind()
    agents = {row.id: row.agent for row in connection.execute(sa.select(_VERSIONS.c.id, _VERSIONS.c.agent))}

    def change(row: Any) -> dict[str, str] | None:
        # The agent of a version that is not stored is the part of its id before the last @.
        return _change(row, agents.get(row.chosen, row.chosen.rsplit("@", 1)[0]))

    _change_all(connection, change)


def downgrade() -> None:
    """Removes the agent of every decision, with the digest of the record as it was."""
    _change_all(op.get_bind(), _without_agent)


def _change_all(connection: sa.Connection, convert: Callable[[Any], dict[str, str] | None]) -> None:
    query = sa.select(_DECISIONS.c.id, _DECISIONS.c.chosen, _DECISIONS.c.fields, _DECISIONS.c.sequence)
    query = query.order_by(_DECISIONS.c.sequence).limit(_ROWS_AT_ONCE)
    change = sa.update(_DECISIONS).where(_DECISIONS.c.id == sa.bindparam("row_id"))
    change = change.values(fields=sa.bindparam("row_fields"), digest=sa.bindparam("row_digest"))
    last = 0
    while rows := connection.execute(query.where(_DECISIONS.c.sequence > last)).all():
        changes = [convert(row) for row in rows]
        if changed := [values for values in changes if values is not None]:
            connection.execute(change, changed)
        last = rows[-1].sequence


def _without_agent(row: Any) -> dict[str, str]:
    stored = from_json(row.fields)
    return _row(row, {name: value for name, value in stored.items() if name != "agent"})


def _change(row: Any, agent: str) -> dict[str, str] | None:
    """Returns the row's new text and digest; None = it is no valid record, or has an agent already."""
    try:
        stored = from_json(row.fields)
    except ValueError:
        return None
    if not isinstance(stored, dict) or "agent" in stored:
        return None
    ordered: dict[str, Any] = {}
    for name, value in stored.items():
        if name == "chosen":
            ordered["agent"] = agent
        ordered[name] = value
    return _row(row, ordered)


def _row(row: Any, fields: dict[str, Any]) -> dict[str, str]:
    text = to_json(fields)
    digest = hashlib.sha256(len(text).to_bytes(8, "big") + text).hexdigest()
    return {"row_id": row.id, "row_fields": text.decode(), "row_digest": digest}
