"""Which of several equal conversations a line of a file is.

A conversation with an id of its own, or a trial number, is identified by it. For all others, where it stands in its
file belongs to its identity, because an agent may really have done the same thing twice. A line is a stored
conversation again if its content is equal and the nearest other conversations before and after it are, at the same
distance. The beginning and the end of a file, and quarantined lines, agree with anything, but one side has to be
equal, unless nothing else stood in the stored one's file. Otherwise the line is a further attempt.

So a file again, a file that grew or whose quarantined lines were repaired, files that overlap by at least two
different conversations, and the parts of a file before or after the whole add nothing twice; and parts together
are the whole file. A file all of whose conversations are stored already, as often as it has them, adds
nothing in any order. Not decidable, and taken for the same conversations: parts of a file that are equal, or the
second of which begins or ends like another. A line that was edited between two imports makes its two neighbours
further attempts; ids or trial numbers in the file avoid all of this.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Engine, func, select

from upturn.pool import schema
from upturn.pool.imported import Place

_PER_QUERY = 500


class _Side(NamedTuple):
    """What stands on one side of a conversation."""

    content: str = ""
    """The conversation itself; empty = none."""
    other: str = ""
    """The nearest different one; empty = unknown."""
    distance: int = 0
    """To that one."""

    def next(self, content: str | None) -> "_Side":
        """Returns that of the next conversation; None = a quarantined line."""
        if content is None:
            return _Side()
        if content != self.content:
            return _Side(content, self.content, 1)
        return self._replace(distance=self.distance + 1)

    @property
    def key(self) -> str | None:
        """Equal for equal neighbours; None = unknown."""
        return f"{self.other[:16]}:{self.distance}" if self.other else None


class PlaceFinder:
    """The places of the conversations of one file, page by page; single use."""

    def __init__(self, engine: Engine, tenant: str, source: str, state: str = "") -> None:
        """``source``: of the import. ``state``: that of an import that was interrupted; empty = it begins."""
        self._engine, self._tenant, self._source = engine, tenant, source
        self._side = _Side(*json.loads(state)) if state else _Side()
        """Of the conversation before."""

    @property
    def state(self) -> str:
        """With which another finder goes on with the next page."""
        return json.dumps(self._side)

    def find(self, page: Sequence[str | None], following: Sequence[str | None]) -> list[Place]:
        """Returns the place of each conversation of a page; ``following``: those of the next page, to compare.

        None = a quarantined line; it has no place.
        """
        stored = self._stored(content for content in page if content is not None)
        before, after = self._before(page), _after(page, following)
        return [
            self._place(content, stored.setdefault(content, []), *sides)
            for content, *sides in zip(page, before, after, strict=True)
            if content is not None
        ]

    def _place(self, content: str, stored: list["_Stored"], before: str | None, after: str | None) -> Place:
        unseen = [row for row in stored if not row.is_seen]
        beside = [row for row in unseen if row.is_beside(before, after)]
        same = next(iter(beside or [row for row in unseen if row.before is None and row.after is None]), None)
        if same is None:
            number = max((row.number for row in stored), default=-1) + 1
            stored.append(_Stored(number, before, after, True))
            return Place(content, number, before, after, True)
        stored[stored.index(same)] = same._replace(is_seen=True)
        return Place(content, same.number, same.before or before, same.after or after, False)

    def _before(self, page: Sequence[str | None]) -> list[str | None]:
        sides: list[str | None] = []
        for content in page:
            self._side = self._side.next(content)
            sides.append(self._side.key)
        return sides

    def _stored(self, contents: Iterable[str]) -> dict[str, list["_Stored"]]:
        table = schema.places
        columns = (table.c.content, table.c.number, table.c.before, table.c.after, table.c.source)
        stored: dict[str, list[_Stored]] = {}
        for row in _rows(self._engine, columns, self._tenant, contents):
            seen = _Stored(row.number, row.before, row.after, row.source == self._source)
            stored.setdefault(row.content, []).append(seen)
        return stored


class _Stored(NamedTuple):
    number: int
    before: str | None
    after: str | None
    is_seen: bool
    """Whether a line of this import is it."""

    def is_beside(self, before: str | None, after: str | None) -> bool:
        """Whether it stands next to the same on one side at least, and next to nothing else on the other."""
        sides = ((before, self.before), (after, self.after))
        known = [(side, own) for side, own in sides if side is not None and own is not None]
        return bool(known) and all(side == own for side, own in known)


def _after(page: Sequence[str | None], following: Sequence[str | None]) -> list[str | None]:
    """Returns the keys of what follows; None = nothing that differs follows as far as is known."""
    sides: list[str | None] = []
    side = _Side()
    for content in reversed([*page, *following]):
        side = side.next(content)
        sides.append(side.key)
    return sides[::-1][: len(page)]


class StoredCounts:
    """Whether the pool has the conversations of a file as often as the file; about 100 bytes for each of them."""

    def __init__(self, engine: Engine, tenant: str) -> None:
        self._engine, self._tenant = engine, tenant
        self._read: Counter[str] = Counter()

    def has(self, page: Sequence[str]) -> bool:
        """Adds a page; returns False if the pool lacks one of its conversations."""
        self._read.update(page)
        table = schema.places
        columns = (table.c.content, func.count())
        counts: Mapping[str, int] = {
            row[0]: row[1] for row in _rows(self._engine, columns, self._tenant, page, is_grouped=True)
        }
        return all(self._read[content] <= counts.get(content, 0) for content in page)


def _rows(
    engine: Engine, columns: Sequence[Any], tenant: str, contents: Iterable[str], *, is_grouped: bool = False
) -> Iterable[Any]:
    table = schema.places
    wanted = sorted(set(contents))
    with engine.connect() as connection:
        for start in range(0, len(wanted), _PER_QUERY):
            page = wanted[start : start + _PER_QUERY]
            query = select(*columns).where(table.c.tenant == tenant, table.c.content.in_(page))
            query = query.group_by(table.c.content) if is_grouped else query.order_by(table.c.number)
            yield from connection.execute(query)
