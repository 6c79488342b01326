"""Import of recorded conversations.

Ids are hashes of the content and the place in the file (``place``), so that importing a file again, overlapping
files, or a file in parts adds no duplicates and loses none. An unusable line is quarantined with its number, the
reason and its text; the others are stored. Each page of lines is stored in one transaction with the state of the
import, so that an interrupted import continues after its last page.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Select, select

from upturn.errors import ConfigError, IngestError, RecordError, StoreConflictError, UnknownNameError
from upturn.pool import schema
from upturn.pool.access import current_policy
from upturn.pool.batch import store_page
from upturn.pool.imported import Imported, Place, Quarantined
from upturn.pool.ingestion.borders import keep_borders
from upturn.pool.ingestion.conversion import Origin, Point, point_of, preferred, task_of, trajectory_of
from upturn.pool.ingestion.formats import (
    AUTO,
    NAME_RULE,
    READERS,
    Conversation,
    Defaults,
    Line,
    LineError,
    detect_format,
    is_name,
)
from upturn.pool.ingestion.place import PlaceFinder, StoredCounts
from upturn.pool.ingestion.recording import check_kind, open_recording, printable, unreadable
from upturn.pool.privacy import anonymise, mask, redact
from upturn.pool.row import ReadyRow, digest
from upturn.pool.store import Pool
from upturn.records import Task, Trajectory, fields_json

_LINES_PER_PAGE = 200
_SHOWN = 1000
"""Maximum of quarantined lines in a report; the pool has all."""
_LONGEST_KEPT = 2**20
"""Bytes of a quarantined line whose text is kept."""
_MOST_KEYS = 100
"""Maximum of unknown keys that are counted one by one."""


class IngestOptions(NamedTuple):
    """How to read a file, and for which tenant."""

    format: str = AUTO
    """``auto`` = it is detected."""
    tenant: str = "default"
    family: str | None = None
    """Family of recordings without one; None = the format's default."""
    agent: str | None = None
    """Model of recordings without one; None = ``unknown``."""
    is_anonymised: bool = False
    """Whether privacy findings are replaced by masks before anything is stored."""


class IngestReport(NamedTuple):
    """The result of importing a file."""

    path: str
    format: str
    """That it has, or was named; empty = an export of Upturn."""
    lines: int
    added: int
    """Number of new trajectories."""
    known: int
    """Number of trajectories that are stored already or repeated in the file."""
    quarantined: tuple[Quarantined, ...]
    """The first ones."""
    bad: int
    """Number of quarantined lines."""
    unknown_keys: Mapping[str, int]
    """Number of conversations with each key that the format does not know; they keep its values."""
    is_repeated: bool
    """True = this file was imported before; the other figures are of that import."""


def ingest(
    pool: Pool, path: Path, options: IngestOptions, on_read: Callable[[int], object] = lambda _: None
) -> IngestReport:
    """Imports the file, or the rest of it after an interrupted import; raises the errors of ``check_source``.

    Where the tenant anonymises before anything is stored, this does so, too.

    ``on_read`` gets the number of bytes of the file with each block that is read.
    """
    options = check_source(path, options)
    if current_policy(pool.engine, tenant=options.tenant).anonymise == "write":
        options = options._replace(is_anonymised=True)
    try:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        named = (options.format, options.family or "", options.agent or "")
        source = digest(content, *named, *(("anonymised",) if options.is_anonymised else ()))
        earlier = earlier_report(pool, path, options.tenant, source)
        if earlier is not None:
            return earlier._replace(format=options.format)
        return _Import(pool, path, options, source).run(on_read)
    except OSError as exc:
        raise unreadable(path, exc) from exc


def check_source(path: Path, options: IngestOptions) -> IngestOptions:
    """Returns the options with the file's format; raises errors in them or the file, before anything is stored.

    UnknownNameError for a format that is unknown or cannot be detected, ConfigError for invalid names, IngestError
    for a file that cannot be read or is of a kind that is not imported.
    """
    if options.format not in (AUTO, *READERS):
        known = ", ".join((*READERS, AUTO))
        raise UnknownNameError(
            f"unknown format {options.format!r}; known: {known}; convert the file to one of them"
        )
    named = {"tenant": options.tenant, "family": options.family, "agent": options.agent}
    problems = [
        f"{name} must be {NAME_RULE}, got {value!r:.100}"
        for name, value in named.items()
        if value is not None and not is_name(value)
    ]
    if problems:
        raise ConfigError(problems)
    check_kind(path)
    if options.format != AUTO:
        return options
    try:
        return options._replace(format=detect_format(partial(open_recording, path)))
    except OSError as exc:
        raise unreadable(path, exc) from exc


def earlier_report(pool: Pool, path: Path, tenant: str, source: str) -> IngestReport | None:
    """Returns the report of the completed import of the same file with the same options; None = there is none."""
    bad = schema.quarantine
    with pool.engine.connect() as connection:
        earlier = connection.execute(_import_query(tenant, source)).first()
        if earlier is None or not earlier.is_complete:
            return None
        query = select(bad.c.line, bad.c.reason, bad.c.text).where(bad.c.tenant == tenant, bad.c.source == source)
        rows = connection.execute(query.order_by(bad.c.line).limit(_SHOWN))
        quarantined = tuple(Quarantined(*row) for row in rows)
    keys = _State.read(earlier.state).keys
    return IngestReport(
        printable(path), "", earlier.lines, 0, earlier.accepted, quarantined, earlier.quarantined, keys, True
    )


def _import_query(tenant: str, source: str) -> Select[Any]:
    table = schema.imports
    return select(table).where(table.c.tenant == tenant, table.c.source == source)


class _State(NamedTuple):
    """What an import needs to continue, beside its counts."""

    place: str
    """Of the place finder."""
    keys: Counter[str]
    """Unknown keys."""
    last_line: int
    """Number of the last line that was read."""

    @classmethod
    def read(cls, text: str) -> "_State":
        fields = json.loads(text) if text else {}
        return cls(fields.get("place", ""), Counter(fields.get("keys", {})), fields.get("last_line", 0))

    def write(self) -> str:
        return json.dumps(self._asdict())


class _Recorded(NamedTuple):
    """A conversation of a usable line."""

    conversation: Conversation
    task: Task
    trajectory: Trajectory
    """Without id and number."""
    content: str
    """Hash of the trajectory without them."""

    @property
    def has_place(self) -> bool:
        """Whether its place in the file belongs to its identity."""
        return self.conversation.number is None and self.conversation.identity is None


class _Usable(NamedTuple):
    """A usable line."""

    line: Line
    recorded: tuple[_Recorded, ...]
    """Its conversations."""


_Points = tuple[Point, ...]
"""The conversations of a line; of a preference the preferred one first."""

_Page = list[_Usable | Quarantined]


class _Import:
    """The import of one file; single use."""

    def __init__(self, pool: Pool, path: Path, options: IngestOptions, source: str) -> None:
        self._pool, self._path, self._options, self._source = pool, path, options, source
        self._origin = Origin(options.format, options.tenant)
        with pool.engine.connect() as connection:
            begun = connection.execute(_import_query(options.tenant, source)).first()
        state = _State.read("" if begun is None else begun.state)
        self._keys, self._last_line = state.keys, state.last_line
        self._places = PlaceFinder(pool.engine, options.tenant, source, state.place)
        self._lines = 0 if begun is None else begun.lines
        self._accepted = 0 if begun is None else begun.accepted
        self._bad = 0 if begun is None else begun.quarantined
        self._added = 0
        self._quarantined: list[Quarantined] = []

    def run(self, on_read: Callable[[int], object]) -> IngestReport:
        if not self._is_stored():
            pages = self._pages(on_read)
            page, following = next(pages, []), next(pages, [])
            while page:
                finish = self._begin_page(page, following)
                page, following = following, next(pages, [])  # is read while the page is stored
                finish()
        if not self._lines:
            raise IngestError(f"{printable(self._path)!r} has no conversations; check the file and its format")
        self._pool.append(imported=self._imported((), (), is_complete=True))
        return IngestReport(
            printable(self._path),
            self._options.format,
            self._lines,
            self._added,
            self._accepted - self._added,
            tuple(self._quarantined),
            self._bad,
            self._keys,
            False,
        )

    def _pages(self, on_read: Callable[[int], object]) -> Iterator[_Page]:
        """Yields the lines that are not imported yet."""
        options = self._options
        defaults = Defaults(options.family, options.agent or Defaults().agent)
        lines = READERS[options.format](partial(open_recording, self._path, on_read), defaults)
        first = self._last_line
        rest = (line for line in lines if line.number > first)
        while page := [self._read(line) for line in islice(rest, _LINES_PER_PAGE)]:
            yield page

    def _is_stored(self) -> bool:
        """Whether all conversations of the file are stored, as often as it has them; then they are known."""
        if self._lines:
            return False
        counts, lines, accepted = StoredCounts(self._pool.engine, self._options.tenant), 0, 0
        for page in self._pages(lambda _: None):
            contents = _contents(page)
            recorded = [content for content in contents if content is not None]
            if len(recorded) < _conversations(page) or not counts.has(recorded):
                return False
            lines += len(page)
            accepted += len(recorded)
        self._lines, self._accepted = lines, accepted
        return True

    def _read(self, line: Line) -> _Usable | Quarantined:
        try:
            if isinstance(line.content, LineError):
                raise line.content
            return _Usable(line, tuple(map(self._recorded, (line.content, *line.further))))
        except (LineError, RecordError) as exc:
            return self._unusable(line, exc)

    def _recorded(self, conversation: Conversation) -> _Recorded:
        task = task_of(conversation, self._origin)
        trajectory = trajectory_of(conversation, task, self._origin)
        texts = (fields_json(trajectory), *((conversation.mark,) if conversation.mark else ()))
        return _Recorded(conversation, task, trajectory, digest(*texts))

    def _begin_page(self, page: _Page, following: _Page) -> Callable[[], None]:
        """Sends a page to be stored; returns what waits for it, to be called before the next page begins."""
        usable = [entry for entry in page if isinstance(entry, _Usable)]
        bad = [entry for entry in page if isinstance(entry, Quarantined)]
        places = self._places.find(_contents(page), _contents(following))
        numbers = iter(place.number for place in places)
        points: list[tuple[int, _Points]] = []
        for line, recorded in usable:
            placed = [(entry, next(numbers) if entry.has_place else None) for entry in recorded]
            try:
                points.append((line.number, self._points(placed, is_preference=line.is_preference)))
            except RecordError as exc:
                bad.append(self._unusable(line, exc))
            for entry in recorded:
                self._count_keys(entry.conversation.unknown)
        self._last_line = max(entry.line if isinstance(entry, Quarantined) else entry.line.number for entry in page)
        self._lines += len(page)
        return self._store(points, bad, places, {entry.line.number: entry.line for entry in usable})

    def _store(
        self,
        points: Sequence[tuple[int, _Points]],
        bad: list[Quarantined],
        places: Sequence[Place],
        lines: Mapping[int, Line],
    ) -> Callable[[], None]:
        """Stores a page in one transaction; its lines one by one if a record is stored with other content.

        Returns what waits for it.
        """
        self._note(bad)
        self._accepted += sum(len(members) for _, members in points)
        stored, new = self._submit([members for _, members in points], self._imported(bad, places))

        def finish() -> None:
            try:
                stored.result()
                self._added += new
            except StoreConflictError:
                added, conflicts = store_page(self._append, points)
                late = [self._unusable(lines[conflict.line], ValueError(conflict.reason)) for conflict in conflicts]
                self._note(late)
                self._added += added
                sizes = {line: len(members) for line, members in points}
                self._accepted -= sum(sizes[conflict.line] for conflict in conflicts)
                self._pool.append(imported=self._imported([*bad, *late], places))

        return finish

    def _note(self, bad: Sequence[Quarantined]) -> None:
        self._bad += len(bad)
        self._quarantined += bad[: _SHOWN - len(self._quarantined)]

    def _imported(
        self, bad: Sequence[Quarantined], places: Sequence[Place], *, is_complete: bool = False
    ) -> Imported:
        """Returns the state of the import after a page with these lines and places."""
        return Imported(
            self._options.tenant,
            self._source,
            printable(self._path),
            self._lines,
            self._accepted,
            tuple(bad),
            is_complete,
            self._bad,
            _State(self._places.state, self._keys, self._last_line).write(),
            tuple(places),
        )

    def _unusable(self, line: Line, problem: Exception) -> Quarantined:
        text, reason = None, str(problem)
        if 0 < len(line.text) <= _LONGEST_KEPT:
            text = line.text.decode(errors="backslashreplace").replace("\0", "\\x00")
        if self._options.is_anonymised:
            text, reason = text and redact(text), redact(reason)
        return Quarantined(line.number, reason, text)

    def _count_keys(self, keys: Sequence[str]) -> None:
        for key in map(redact, keys) if self._options.is_anonymised else keys:
            if key in self._keys or len(self._keys) < _MOST_KEYS:
                self._keys[key] += 1

    def _points(self, placed: Sequence[tuple[_Recorded, int | None]], *, is_preference: bool) -> _Points:
        """Returns the conversations of a line as rows; raises RecordError."""
        first, *others = (self._point(entry, number) for entry, number in placed)
        return (first, *(preferred(first, other, self._origin) if is_preference else other for other in others))

    def _point(self, entry: _Recorded, number: int | None) -> Point:
        """Returns the conversation as rows; raises RecordError. ``number``: None = it has an id or a number."""
        conversation, task, trajectory = entry.conversation, entry.task, entry.trajectory
        if self._options.is_anonymised:
            task, trajectory = anonymise(task), keep_borders(trajectory, anonymise(trajectory), mask)
            conversation = replace(conversation, tags=list(map(redact, conversation.tags)))
        return point_of(conversation, task, trajectory, self._origin, content=entry.content, number=number)

    def _append(self, lines: Sequence[_Points]) -> int:
        """Returns how many trajectories are new, once they are durable."""
        stored, new = self._submit(lines)
        stored.result()
        return new

    def _submit(self, lines: Sequence[_Points], imported: Imported | None = None) -> tuple[Future[int], int]:
        """Returns when they are durable, and how many trajectories are new; everything before must be stored.

        Stored tasks stay, as their recordings may start differently.
        """
        points = [point for members in lines for point in members]
        tasks: dict[Any, ReadyRow] = {}
        for point in points:
            tasks.setdefault(point.task.values["id"], point.task)
        trajectories = {point.trajectory.values["id"] for point in points}
        with self._pool.engine.connect() as connection:
            for table, rows in ((schema.tasks, tasks), (schema.trajectories, trajectories)):
                stored = connection.execute(select(table.c.id).where(table.c.id.in_(rows))).scalars().all()
                if table is schema.tasks:
                    for identity in stored:
                        del tasks[identity]
        results = (row for point in points for row in (*point.results, *point.tags))
        future = self._pool.submit(*tasks.values(), *results, imported=imported)
        return future, len(trajectories) - len(stored)


def _contents(page: _Page) -> list[str | None]:
    """Returns the hashes of the conversations whose place matters; None = a quarantined line."""
    contents: list[str | None] = []
    for entry in page:
        if isinstance(entry, Quarantined):
            contents.append(None)
        else:
            contents += (recorded.content for recorded in entry.recorded if recorded.has_place)
    return contents


def _conversations(page: _Page) -> int:
    """Returns the number of conversations, a quarantined line counted as one."""
    return sum(1 if isinstance(entry, Quarantined) else len(entry.recorded) for entry in page)
