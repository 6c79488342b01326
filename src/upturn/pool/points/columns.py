"""Points as arrays: a million are read in half a second, and counted in numpy."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, func, or_, select

from upturn.pool import schema
from upturn.pool.points.point import FORM, Point, Stratum
from upturn.pool.selection import Scope, in_scope

_KINDS = {"q": "<i8", "d": "<f8", "i": "<i4", "b": "<i1"}
"""Types of numpy by the letters of ``struct``."""
_CELL = np.dtype([(name, _KINDS[kind]) for name, kind in zip(Point._fields, FORM[1:], strict=True)])

_NUMBERS_AT_ONCE = 1_000_000
"""Sequence numbers whose points are read with one query, about 70 MB."""
_ROWS_AT_ONCE = 50_000
_VALUES_IN_QUERY = 900
"""SQLite allows 999 in older versions."""


class PointColumns(NamedTuple):
    """Points that were valid at a sequence number of the pool, in no order."""

    rows: NDArray[Any]
    """One field for each of ``Point``. (N,)"""
    strata: tuple[Stratum, ...]
    """In the order of their ids."""
    stratum: NDArray[np.int64]
    """Index in ``strata`` of each point. (N,)"""

    def where(self, mask: NDArray[np.bool_]) -> "PointColumns":
        """Returns the points for which the mask is True."""
        return PointColumns(self.rows[mask], self.strata, self.stratum[mask])

    def column(self, name: str) -> NDArray[Any]:
        """Returns a field of all points."""
        return np.ascontiguousarray(self.rows[name])


def read_points(
    connection: Connection, *, tenant: Scope, among: Mapping[str, Sequence[Any]], bound: int | None = None
) -> PointColumns:
    """Returns the points of a tenant in strata that have one of the values of each column in ``among``.

    No values = any. ``bound``: as they were when this was the pool's last sequence number; None = now.
    """
    table = schema.strata.c
    conditions = [table[name].in_(allowed) for name, allowed in among.items() if allowed]
    query = select(schema.strata).where(*in_scope(table.tenant, tenant), *conditions).order_by(table.id)
    rows = connection.execute(query).all()
    ids = np.array([row[0] for row in rows], dtype=np.int64)
    count = connection.execute(select(func.count()).select_from(schema.strata)).scalar_one()
    cells = np.frombuffer(b"".join(_cells(connection, ids, bound, is_all=len(ids) == count)), dtype=_CELL)
    stratum = np.searchsorted(ids, cells["stratum"])
    if len(ids) < count:
        is_one = ids[np.minimum(stratum, len(ids) - 1)] == cells["stratum"] if len(ids) else np.zeros(0, bool)
        cells, stratum = cells[is_one], stratum[is_one]
    return PointColumns(cells, tuple(Stratum(*row[1:]) for row in rows), stratum)


def field_among(name: str, values: Sequence[int | float]) -> list[ColumnElement[bool]]:
    """Returns the condition of a query that a field of points has one of these values.

    None for more values than a query can have: then points of other values are read too.
    """
    if len(values) > _VALUES_IN_QUERY:
        return []
    place = 1 + Point._fields.index(name)  # after the byte order
    start, kind = struct.calcsize(FORM[:place]), f"<{FORM[place]}"
    bytes_of_it = func.substr(schema.points.c.packed, 1 + start, struct.calcsize(kind))
    return [bytes_of_it.in_([struct.pack(kind, value) for value in values])]


def _cells(connection: Connection, ids: NDArray[np.int64], bound: int | None, *, is_all: bool) -> Iterator[bytes]:
    """Yields the bytes of the points of these strata, and of others where the strata are too many for a query."""
    if not len(ids):
        return
    table = schema.points.c
    query = select(table.packed)
    if bound is None:
        query = query.where(table.until.is_(None))
        last = connection.execute(select(func.max(table.sequence))).scalar() or 0
    else:
        query = query.where(or_(table.until.is_(None), table.until > bound))
        last = bound
    if not is_all:
        query = query.where(*field_among("stratum", ids.tolist()))
    for start in range(0, last, _NUMBERS_AT_ONCE):
        stop = min(last, start + _NUMBERS_AT_ONCE)
        # the driver's cursor: SQLAlchemy takes as long for its rows as the database
        cursor: Any = connection.execute(query.where(table.sequence > start, table.sequence <= stop)).cursor
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            yield b"".join([row[0] for row in rows])
