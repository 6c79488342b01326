"""Reads of calls. Every read has a tenant."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Engine, and_, case, func, literal, or_, select, tuple_

from upturn.pool.schema import call_contents, calls, decisions, feedback, tasks
from upturn.pool.selection import Scope, in_scope
from upturn.records import EPISODE_TASK, Call, CallContent, Decision, from_fields

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


class IdleEpisode(NamedTuple):
    """An episode that is not sealed and had no call for some time."""

    tenant: str
    episode: str
    key: str
    """Id of the API key of its calls; empty = they had none."""


def idle_episodes(engine: Engine, *, tenant: Scope, before: float, is_rated: bool = False) -> list[IdleEpisode]:
    """Returns unsealed episodes with an answered call whose latest call was stored before a time (UTC, seconds
    since 1970), the oldest first.

    ``is_rated``: only those with feedback on them or on one of their calls.
    """
    sealed = select(tasks.c.id).where(
        tasks.c.id == literal(f"{EPISODE_TASK}:") + calls.c.tenant + literal(":") + calls.c.episode
    )
    answered = func.sum(case((calls.c.status == "answered", 1), else_=0))
    query = (
        select(calls.c.tenant, calls.c.episode, func.min(calls.c.key))
        .where(*in_scope(calls.c.tenant, tenant), ~sealed.exists())
        .group_by(calls.c.tenant, calls.c.episode)
        .having(func.max(calls.c.recorded_at) < before, answered > 0)
        .order_by(func.max(calls.c.sequence))
    )
    if is_rated:
        of_calls = and_(feedback.c.subject_kind == "decision", feedback.c.subject_id == calls.c.id)
        of_episodes = and_(feedback.c.subject_kind == "episode", feedback.c.subject_id == calls.c.episode)
        given = select(calls.c.tenant, calls.c.episode).where(
            select(feedback.c.id)
            .where(feedback.c.tenant == calls.c.tenant, or_(of_calls, of_episodes))
            .correlate(calls)
            .exists()
        )
        query = query.where(tuple_(calls.c.tenant, calls.c.episode).in_(given))
    with engine.connect() as connection:
        return [IdleEpisode(*row) for row in connection.execute(query)]
