"""Reads of calls. Every read has a tenant."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Engine, select

from upturn.pool.schema import call_contents, calls, decisions
from upturn.pool.selection import Scope, in_scope
from upturn.records import Call, CallContent, Decision, from_fields

_IDS_PER_QUERY = 500


class StoredCall(NamedTuple):
    """A call with what was said in it."""

    call: Call
    content: CallContent | None
    """None = deleted after the retention time."""


def call_by_id(engine: Engine, call_id: str, *, tenant: Scope) -> Call | None:
    """Returns the call; None = the tenant has none with this id."""
    query = select(calls.c.fields).where(calls.c.id == call_id, *in_scope(calls.c.tenant, tenant))
    with engine.connect() as connection:
        fields = connection.execute(query).scalar()
    return None if fields is None else from_fields(Call, fields)


def calls_of_episode(engine: Engine, episode: str, *, tenant: Scope) -> list[StoredCall]:
    """Returns the calls of an episode in the order of their storage."""
    query = (
        select(calls.c.fields, call_contents.c.fields)
        .outerjoin(call_contents, call_contents.c.id == calls.c.id)
        .where(calls.c.episode == episode, *in_scope(calls.c.tenant, tenant))
        .order_by(calls.c.sequence)
    )
    with engine.connect() as connection:
        rows = connection.execute(query).all()
    return [
        StoredCall(from_fields(Call, row[0]), None if row[1] is None else from_fields(CallContent, row[1]))
        for row in rows
    ]


def latest_prefix(engine: Engine, prefixes: Sequence[str], *, tenant: Scope) -> Call | None:
    """Returns the call whose conversation is the last of ``prefixes`` that is stored; None = none is."""
    for start in range(len(prefixes), 0, -_IDS_PER_QUERY):
        page = prefixes[max(0, start - _IDS_PER_QUERY) : start]
        query = select(calls.c.prefix, calls.c.fields).where(
            calls.c.prefix.in_(page), *in_scope(calls.c.tenant, tenant)
        )
        with engine.connect() as connection:
            stored = {row[0]: row[1] for row in connection.execute(query.order_by(calls.c.sequence))}
        for prefix in reversed(page):
            if prefix in stored:
                return from_fields(Call, stored[prefix])
    return None


def episode_decision(engine: Engine, episode: str, *, tenant: Scope) -> Decision | None:
    """Returns the decision of the latest call of an episode; None = it has no calls."""
    query = (  # a call has the id of its decision, and an index by episode, which decisions have not
        select(decisions.c.fields)
        .join_from(calls, decisions, decisions.c.id == calls.c.id)
        .where(calls.c.episode == episode, *in_scope(calls.c.tenant, tenant))
        .order_by(calls.c.sequence.desc())
        .limit(1)
    )
    with engine.connect() as connection:
        fields = connection.execute(query).scalar()
    return None if fields is None else from_fields(Decision, fields)
