"""What answered calls and routed tasks used: tokens and seconds, in the order of arrival.

The tasks of sealed episodes are left out, because their calls are counted already.
"""

from collections.abc import Iterator
from typing import NamedTuple

from pydantic_core import from_json
from sqlalchemy import Engine, exists, select

from upturn.pool.row import cache_tokens
from upturn.pool.schema import calls, decisions, tasks, trajectories
from upturn.pool.selection import Scope, in_scope
from upturn.records import MODEL_CALL

_SPAN = 4_000
"""Sequence numbers read at once."""


class Consumed(NamedTuple):
    """What one call or one task used."""

    sequence: int
    """Of the call's or trajectory's record."""
    family: str
    version: str
    input_tokens: int
    """Cached ones included."""
    cached_tokens: int
    output_tokens: int
    seconds: float
    cache_write_tokens: int = 0
    """Of ``input_tokens``."""
    cache_write_1h_tokens: int = 0
    """Of ``cache_write_tokens``."""

    @property
    def has_tokens(self) -> bool:
        """False = the tokens are not known."""
        return self.input_tokens > 0 or self.output_tokens > 0


def consumption_after(engine: Engine, start: int, end: int, *, tenant: Scope) -> Iterator[Consumed]:
    """Yields what records with numbers above ``start`` and at most ``end`` used, in their order."""
    while start < end:
        stop = min(end, start + _SPAN)
        yield from sorted([*_of_calls(engine, start, stop, tenant), *_of_tasks(engine, start, stop, tenant)])
        start = stop


def _of_calls(engine: Engine, start: int, stop: int, tenant: Scope) -> Iterator[Consumed]:
    query = (
        select(calls.c.sequence, decisions.c.family, calls.c.agent_version, calls.c.fields)
        .join(decisions, decisions.c.id == calls.c.id)
        .where(calls.c.sequence > start, calls.c.sequence <= stop, calls.c.status == "answered")
        .where(*in_scope(calls.c.tenant, tenant))
    )
    with engine.connect() as connection:
        rows = connection.execute(query).all()
    for row in rows:
        fields = from_json(row.fields)
        yield Consumed(
            row.sequence,
            row.family,
            row.agent_version,
            fields["input_tokens"],
            fields["cached_input_tokens"],
            fields["output_tokens"],
            fields["seconds"],
            fields.get("cache_write_tokens", 0),
            fields.get("cache_write_1h_tokens", 0),
        )


def _of_tasks(engine: Engine, start: int, stop: int, tenant: Scope) -> Iterator[Consumed]:
    table = trajectories
    is_routed = exists().where(
        decisions.c.task_id == table.c.task_id,
        decisions.c.chosen == table.c.agent_version,
        decisions.c.sequence < table.c.sequence,
    )
    query = (
        select(
            table.c.sequence,
            tasks.c.family,
            table.c.agent_version,
            table.c.prompt_tokens,
            table.c.written_tokens,
            table.c.seconds,
            table.c.fields,
        )
        .join(tasks, tasks.c.id == table.c.task_id)
        .where(table.c.sequence > start, table.c.sequence <= stop, tasks.c.environment != MODEL_CALL, is_routed)
        .where(*in_scope(table.c.tenant, tenant))
    )
    with engine.connect() as connection:
        rows = connection.execute(query).all()
    for row in rows:
        cached, *written = cache_tokens(row.fields, row.prompt_tokens)
        yield Consumed(
            row.sequence,
            row.family,
            row.agent_version,
            row.prompt_tokens,
            cached,
            row.written_tokens,
            row.seconds,
            *written,
        )
