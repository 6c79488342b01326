"""The acts of operators: who, what, when. The table only grows, and the audit log covers it (``pool.audit``)."""

from sqlalchemy import Connection, Engine, func, insert, select

from upturn.pool.audit import StoredRows, append_entries
from upturn.pool.database import Location, operator_transaction
from upturn.pool.row import Values
from upturn.pool.schema import admin_acts as table
from upturn.pool.selection import ALL_TENANTS, Scope
from upturn.records import AdminAct, fields_json, from_fields


def record_act(location: str | Location, act: AdminAct) -> None:
    """Stores an act that changed no key, such as a reload of the configuration; returns once it is durable."""
    with operator_transaction(location) as connection:
        append_act(connection, act, kind="", fields="")


def append_act(connection: Connection, act: AdminAct, *, kind: str, fields: str) -> int:
    """Adds an act in the transaction of what it changed: ``fields`` is the new state of a row of table ``kind``.

    Returns its sequence number."""
    last = int(connection.execute(select(func.max(table.c.sequence))).scalar() or 0)
    row: Values = {
        "sequence": last + 1,
        "kind": kind,
        "record_id": act.subject,
        "tenant": act.tenant,
        "act": fields_json(act),
        "fields": fields,
        "recorded_at": act.when,
    }
    connection.execute(insert(table), row)
    append_entries(connection, [StoredRows(table, [row])])
    return last + 1


def admin_acts(engine: Engine, *, tenant: Scope) -> list[AdminAct]:
    """Returns the acts on what belongs to the tenant or to the whole installation, oldest first."""
    query = select(table.c.act).order_by(table.c.sequence)
    if tenant is not ALL_TENANTS:
        query = query.where(table.c.tenant.in_((tenant, "")))
    with engine.connect() as connection:
        return [from_fields(AdminAct, act) for act in connection.execute(query).scalars()]
