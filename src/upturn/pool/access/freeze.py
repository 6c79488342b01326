"""The switch that stops routers from learning: an operator's act, with the record up to which they have learned.

All processes on the pool obey it. What is stored while it is on is learned once it is off.
"""

from typing import NamedTuple

from sqlalchemy import Connection, Engine, select

from upturn.pool.access.acts import append_act
from upturn.pool.database import Location, operator_transaction
from upturn.pool.schema import admin_acts
from upturn.pool.serving import last_record
from upturn.records import AdminAct, fields_json, from_fields, record

KIND = "router"
"""Of the acts."""


@record
class FrozenRouter:
    """The state of the switch while it is on."""

    sequence: int
    """Number of the last record that may be learned from."""


class Freeze(NamedTuple):
    """The switch is on."""

    sequence: int
    """Number of the last record that may be learned from."""
    act: AdminAct
    """Who turned it on, when and why."""


def current_freeze(engine: Engine) -> Freeze | None:
    """Returns who stopped learning, and where; None = routers learn."""
    with engine.connect() as connection:
        return _current(connection)


def freeze(location: str | Location, *, who: str, why: str, when: float) -> Freeze:
    """Stops learning from later records than those that are stored now; returns once it is durable.

    If it is stopped already, nothing changes."""
    with operator_transaction(location) as connection:
        if (known := _current(connection)) is not None:
            return known
        act = AdminAct(who, "router freeze", KIND, when, "", why)
        state = FrozenRouter(last_record(connection))
        append_act(connection, act, kind=KIND, fields=fields_json(state))
        return Freeze(state.sequence, act)


def unfreeze(location: str | Location, *, who: str, why: str, when: float) -> bool:
    """Lets routers learn again; returns whether they did not."""
    with operator_transaction(location) as connection:
        if _current(connection) is None:
            return False
        append_act(connection, AdminAct(who, "router unfreeze", KIND, when, "", why), kind=KIND, fields="")
        return True


def _current(connection: Connection) -> Freeze | None:
    query = (
        select(admin_acts.c.act, admin_acts.c.fields)
        .where(admin_acts.c.kind == KIND, admin_acts.c.record_id == KIND)
        .order_by(admin_acts.c.sequence.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    if row is None or not row.fields:
        return None
    return Freeze(from_fields(FrozenRouter, row.fields).sequence, from_fields(AdminAct, row.act))
