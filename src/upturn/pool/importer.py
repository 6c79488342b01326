"""Recorded conversations into the pool: real evidence before the first own run.

Everything gets an id made of its content, so that a file read twice, or two files that overlap, add nothing
twice. A line that cannot be used is quarantined with its number and the reason, and the others go in. A file
that went in completely is noted; where the import was killed, the next one adds what is missing.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import select

from upturn.errors import ConfigError, IngestError, RecordError, StoreConflictError, UnknownNameError
from upturn.pool import schema
from upturn.pool.batch import Imported, PoolBatch, Quarantined
from upturn.pool.coverage import IMPORTED
from upturn.pool.formats import A_NAME, READERS, Conversation, Defaults, Line, LineError, is_name
from upturn.pool.row import digest
from upturn.pool.store import Pool
from upturn.records import Evaluation, Task, Trajectory, fields_json, from_fields

_LINES_PER_BATCH = 200
_ID_LENGTH = 32
"""Hexadecimal digits of a content id: 128 bits."""


class IngestOptions(NamedTuple):
    """How a file is read and whose it becomes."""

    format: str
    tenant: str = "default"
    family: str | None = None
    """For recordings that name none; None = the format's default."""
    agent: str | None = None
    """The model, for recordings that name none; None = the file's name without its ending."""


class IngestReport(NamedTuple):
    """What became of a file."""

    path: str
    lines: int
    added: int
    """Trajectories that are new."""
    known: int
    """Trajectories that were stored already, or stood in the file twice."""
    quarantined: tuple[Quarantined, ...]
    is_repeated: bool
    """True: exactly this file went in before; ``quarantined`` is what was found then."""


class _Point(NamedTuple):
    line: int
    task: Task
    trajectory: Trajectory
    evaluation: Evaluation


def ingest(pool: Pool, path: Path, options: IngestOptions) -> IngestReport:
    """Takes the file in; raises what ``check_source`` raises."""
    check_source(path, options)
    try:
        source = digest(_file_hash(path), options.format, options.family or "", options.agent or "")
        earlier = _earlier(pool, path, options.tenant, source)
        if earlier is not None:
            return earlier
        lines = READERS[options.format](path, Defaults(options.family, options.agent or _shown(path.stem)))
        return _Import(pool, path, options, source).run(lines)
    except OSError as exc:
        raise _unreadable(path, exc) from exc


def check_source(path: Path, options: IngestOptions) -> None:
    """Raises before anything is made or stored.

    UnknownNameError for a format, ConfigError for unusable names, IngestError for a file that cannot be read or is
    of a kind that no format has.
    """
    if options.format not in READERS:
        known = ", ".join(READERS)
        raise UnknownNameError(
            f"unknown format {options.format!r}; known: {known}; convert the file to one of them"
        )
    named = {"tenant": options.tenant, "family": options.family, "agent": options.agent}
    problems = [
        f"{name} must be {A_NAME}, got {value!r:.100}"
        for name, value in named.items()
        if value is not None and not is_name(value)
    ]
    if problems:
        raise ConfigError(problems)
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as exc:
        raise _unreadable(path, exc) from exc
    for beginning, found in _OTHER_KINDS.items():
        if start.startswith(beginning):
            raise IngestError(f"{_shown(path)!r} is {found}")


_OTHER_KINDS = {
    b"\x1f\x8b": "a gzip file; unpack it first",
    b"PK\x03\x04": "a zip file; unpack it first",
    b"\x28\xb5\x2f\xfd": "a zstd file; unpack it first",
    b"PAR1": "a Parquet file; write it as JSON lines first",
    b"SQLite format 3\0": "a SQLite database; recorded conversations are JSON",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8 first",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8 first",
}
"""Kinds of files by how they begin: told apart here, because line by line they would be quarantined whole."""


def _unreadable(path: Path, exc: OSError) -> IngestError:
    return IngestError(f"{_shown(path)!r} cannot be read: {exc.strerror}; name a file that exists")


def _shown(name: str | Path) -> str:
    """As Unicode text: a file's name may be any bytes."""
    return str(name).encode("utf-8", "replace").decode()


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _earlier(pool: Pool, path: Path, tenant: str, source: str) -> IngestReport | None:
    books, bad = schema.imports, schema.quarantine
    with pool.engine.connect() as connection:
        found = connection.execute(select(books).where(books.c.tenant == tenant, books.c.source == source)).first()
        if found is None:
            return None
        query = select(bad.c.line, bad.c.reason).where(bad.c.tenant == tenant, bad.c.source == source)
        quarantined = tuple(Quarantined(*row) for row in connection.execute(query.order_by(bad.c.line)))
    return IngestReport(_shown(path), found.lines, 0, found.accepted, quarantined, True)


class _Import:
    """One file on its way in; single use."""

    def __init__(self, pool: Pool, path: Path, options: IngestOptions, source: str) -> None:
        self._pool, self._path, self._options, self._source = pool, path, options, source
        self._repeated: Counter[str] = Counter()
        self._quarantined: list[Quarantined] = []
        self._lines = self._added = self._known = 0

    def run(self, lines: Iterator[Line]) -> IngestReport:
        while page := list(islice(lines, _LINES_PER_BATCH)):
            self._lines += len(page)
            self._store(self._points(page))
        if not self._lines:
            raise IngestError(f"{_shown(self._path)!r} holds no conversations; check the file and its format")
        quarantined = tuple(self._quarantined)
        accepted = self._added + self._known
        books = Imported(self._options.tenant, self._source, _shown(self._path), self._lines, accepted, quarantined)
        self._pool.append(PoolBatch(imported=books))
        return IngestReport(_shown(self._path), self._lines, self._added, self._known, quarantined, False)

    def _points(self, page: Sequence[Line]) -> list[_Point]:
        points: list[_Point] = []
        for line in page:
            if isinstance(line.content, LineError):
                self._refuse(line.number, str(line.content))
                continue
            try:
                points.append(self._point(line.number, line.content))
            except RecordError as exc:
                self._refuse(line.number, str(exc))
        return points

    def _point(self, line: int, conversation: Conversation) -> _Point:
        """The conversation as records; raises RecordError where they could not be read back."""
        options = self._options
        task = Task(
            id=f"imported:{digest(options.tenant, conversation.family, conversation.task_key)[:_ID_LENGTH]}",
            instruction=conversation.instruction,
            family=conversation.family,
            environment=IMPORTED,
            tenant=options.tenant,
            context=conversation.context,
        )
        trajectory = self._trajectory(task.id, conversation)
        reward, success = conversation.reward, conversation.is_success
        evaluator = f"{options.format}/1"
        evaluation = Evaluation(
            id=f"imported:{digest(trajectory.id, evaluator)[:_ID_LENGTH]}",
            task_id=task.id,
            trajectory_id=trajectory.id,
            evaluator=evaluator,
            verdict="missing" if success is None else "success" if success else "failure",
            gates=(),
            rewards={"recorded": float(success) if reward is None and success is not None else reward},
            costs={},
            score=float(success) if reward is None and success is not None else reward,
        )
        for record in (task, trajectory, evaluation):
            from_fields(type(record), fields_json(record))
        return _Point(line, task, trajectory, evaluation)

    def _trajectory(self, task_id: str, conversation: Conversation) -> Trajectory:
        """Attempts that the recording does not number are numbered among equal conversations of this file."""
        version = f"imported:{conversation.agent.replace('@', '_')}@{self._options.format}"
        bare = Trajectory(
            id="",
            task_id=task_id,
            agent_version=version,
            turns=conversation.turns,
            final_observation=conversation.final_observation,
            outcome=conversation.outcome,
            origin="rendered",
            error=conversation.error,
        )
        content = digest(fields_json(bare))
        attempt = conversation.attempt
        if attempt is None:
            attempt = self._repeated[content]
            self._repeated[content] += 1
        return replace(bare, id=f"imported:{digest(content, str(attempt))[:_ID_LENGTH]}", attempt=attempt)

    def _store(self, points: Sequence[_Point]) -> None:
        try:
            self._append(points)
        except StoreConflictError:
            # One of them contradicts what is stored: the others go in alone.
            for point in points:
                try:
                    self._append([point])
                except StoreConflictError as exc:
                    self._refuse(point.line, str(exc))

    def _append(self, points: Sequence[_Point]) -> None:
        """A task that is stored already stays as it is: its attempts may be recorded with other opening words."""
        tasks: dict[str, Task] = {}
        for point in points:
            tasks.setdefault(point.task.id, point.task)
        tasks.update({task.id: task for task in self._pool.tasks(tenant=self._options.tenant, ids=list(tasks))})
        trajectories = {point.trajectory.id: point.trajectory for point in points}
        fresh = len(trajectories) - self._stored(list(trajectories))
        self._pool.append(
            PoolBatch(
                tasks=list(tasks.values()),
                trajectories=list(trajectories.values()),
                evaluations=[point.evaluation for point in points],
            )
        )
        self._added += fresh
        self._known += len(points) - fresh

    def _stored(self, trajectory_ids: Sequence[str]) -> int:
        table = schema.trajectories
        with self._pool.engine.connect() as connection:
            return len(connection.execute(select(table.c.id).where(table.c.id.in_(trajectory_ids))).all())

    def _refuse(self, line: int, reason: str) -> None:
        self._quarantined.append(Quarantined(line, reason))
