"""A tenant's records of all kinds in the order of their arrival.

The order matters: a snapshot contains the evaluations that arrived before it. Reads are paged, so the memory needed
does not depend on the size of the pool.
"""

import heapq
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, Select, Table, func, select, true

from upturn.pool import schema
from upturn.pool.reader import PoolReader, read_record
from upturn.pool.row import KINDS
from upturn.records import (
    AgentVersion,
    Call,
    CallContent,
    Decision,
    Evaluation,
    Feedback,
    Snapshot,
    Task,
    Trajectory,
    from_fields,
)

_PAGE = 500
_TRAJECTORIES = 100
"""Trajectories read at once; with tokens they are the largest records."""

_TENANT_RECORDS = (Task, Decision, Call, CallContent, Evaluation, Feedback)
_OPERATOR_RECORDS = (AgentVersion, Snapshot)


class Arrival(NamedTuple):
    """A record with its place in the order of the pool."""

    sequence: int
    recorded_at: float
    """UTC, seconds since 1970."""
    record: Any


def last_sequence(pool: PoolReader) -> int:
    """Returns the sequence number of the pool's latest record; 0 = it is empty."""
    tables = [KINDS[cls].table for cls in (*_TENANT_RECORDS, Trajectory, *_OPERATOR_RECORDS)]
    with pool.engine.connect() as connection:
        return max(connection.execute(select(func.max(table.c.sequence))).scalar() or 0 for table in tables)


def count_arrivals(pool: PoolReader, *, tenant: str, until: int) -> int:
    """Returns the number of records that ``arrivals`` yields."""
    owned = [KINDS[cls].table for cls in (*_TENANT_RECORDS, Trajectory)]
    shared = [KINDS[cls].table for cls in _OPERATOR_RECORDS]
    queries = [select(func.count(table.c.id)).where(table.c.sequence <= until) for table in (*owned, *shared)]
    conditions = [*(table.c.tenant == tenant for table in owned), *(true() for _ in shared)]
    with pool.engine.connect() as connection:
        counted = [
            connection.execute(query.where(condition)).scalar_one()
            for query, condition in zip(queries, conditions, strict=True)
        ]
    return sum(counted)


def arrivals(pool: PoolReader, *, tenant: str, until: int) -> Iterator[Arrival]:
    """Yields the tenant's records, and all agent versions and snapshots, up to sequence number ``until``."""
    streams = [_records(pool, cls, [KINDS[cls].table.c.tenant == tenant], until) for cls in _TENANT_RECORDS]
    streams += [_records(pool, cls, [], until) for cls in _OPERATOR_RECORDS]
    streams.append(_trajectories(pool, tenant, until))
    return heapq.merge(*streams, key=lambda arrival: arrival.sequence)


def _records(
    pool: PoolReader, cls: type[Any], conditions: Sequence[ColumnElement[bool]], until: int
) -> Iterator[Arrival]:
    table = KINDS[cls].table
    columns = (table.c.id, table.c.sequence, table.c.recorded_at, table.c.fields)
    query = select(*columns).where(*conditions, table.c.sequence <= until).limit(_PAGE)
    for rows in _pages(pool, table, query):
        for row in rows:
            yield Arrival(row.sequence, row.recorded_at, read_record(row.id, partial(from_fields, cls, row.fields)))


def _trajectories(pool: PoolReader, tenant: str, until: int) -> Iterator[Arrival]:
    table = schema.trajectories
    columns = (table.c.id, table.c.sequence, table.c.recorded_at)
    query = select(*columns).where(table.c.tenant == tenant, table.c.sequence <= until).limit(_TRAJECTORIES)
    for rows in _pages(pool, table, query):
        experiences = pool.experiences_of([row.id for row in rows], tenant=tenant)
        for row, experience in zip(rows, experiences, strict=True):
            yield Arrival(row.sequence, row.recorded_at, experience.trajectory)


def _pages(pool: PoolReader, table: Table, query: Select[Any]) -> Iterator[Sequence[Row[Any]]]:
    """Yields the rows of the query over ``table`` in the order of arrival, as many at once as it is limited to."""
    last = 0
    while True:
        with pool.engine.connect() as connection:
            rows = connection.execute(query.where(table.c.sequence > last).order_by(table.c.sequence)).all()
        if not rows:
            return
        yield rows
        last = rows[-1].sequence
