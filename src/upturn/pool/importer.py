"""Import of recorded conversations: evidence before the first run.

Ids are hashes of the content, so that importing a file twice, or overlapping files, adds nothing twice. An unusable
line is quarantined with its number and the reason, the others are stored. A completely imported file is recorded;
after an interrupted import, the next one adds the missing lines.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import select

from upturn.errors import ConfigError, IngestError, RecordError, UnknownNameError
from upturn.pool import schema
from upturn.pool.batch import Imported, PoolBatch, Quarantined, store_page
from upturn.pool.coverage import IMPORTED
from upturn.pool.formats import NAME_RULE, READERS, Conversation, Defaults, Line, LineError, is_name
from upturn.pool.row import digest
from upturn.pool.store import Pool
from upturn.records import Evaluation, Task, Trajectory, fields_json, from_fields

_LINES_PER_BATCH = 200
_ID_LENGTH = 32
"""Hexadecimal digits of a content id: 128 bits."""


class IngestOptions(NamedTuple):
    """How a file is read, and for which tenant."""

    format: str
    tenant: str = "default"
    family: str | None = None
    """For recordings that name none; None = the format's default."""
    agent: str | None = None
    """The model, for recordings that name none; None = the file's name without its ending."""


class IngestReport(NamedTuple):
    """The result of importing a file."""

    path: str
    lines: int
    added: int
    """Trajectories that are new."""
    known: int
    """Trajectories that were stored already, or are repeated in the file."""
    quarantined: tuple[Quarantined, ...]
    is_repeated: bool
    """True: this file was imported before; ``quarantined`` is the earlier result."""


class _Record(NamedTuple):
    task: Task
    trajectory: Trajectory
    evaluation: Evaluation


def ingest(pool: Pool, path: Path, options: IngestOptions) -> IngestReport:
    """Imports the file; raises as ``check_source``."""
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
    """Raises before anything is stored.

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
        f"{name} must be {NAME_RULE}, got {value!r:.100}"
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
    for beginning, kind in _OTHER_KINDS.items():
        if start.startswith(beginning):
            raise IngestError(f"{_shown(path)!r} is {kind}")


_OTHER_KINDS = {
    b"\x1f\x8b": "a gzip file; unpack it first",
    b"PK\x03\x04": "a zip file; unpack it first",
    b"\x28\xb5\x2f\xfd": "a zstd file; unpack it first",
    b"PAR1": "a Parquet file; write it as JSON lines first",
    b"SQLite format 3\0": "a SQLite database; recorded conversations are JSON",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8 first",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8 first",
}
"""Other kinds of files by their first bytes: without this check all of their lines would be quarantined."""


def _unreadable(path: Path, exc: OSError) -> IngestError:
    return IngestError(f"{_shown(path)!r} cannot be read: {exc.strerror}; name a file that exists")


def _shown(name: str | Path) -> str:
    """As Unicode text: a file's name may be any bytes."""
    return str(name).encode("utf-8", "replace").decode()


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _earlier(pool: Pool, path: Path, tenant: str, source: str) -> IngestReport | None:
    imports, bad = schema.imports, schema.quarantine
    with pool.engine.connect() as connection:
        query = select(imports).where(imports.c.tenant == tenant, imports.c.source == source)
        earlier = connection.execute(query).first()
        if earlier is None:
            return None
        query = select(bad.c.line, bad.c.reason).where(bad.c.tenant == tenant, bad.c.source == source)
        quarantined = tuple(Quarantined(*row) for row in connection.execute(query.order_by(bad.c.line)))
    return IngestReport(_shown(path), earlier.lines, 0, earlier.accepted, quarantined, True)


class _Import:
    """The import of one file; single use."""

    def __init__(self, pool: Pool, path: Path, options: IngestOptions, source: str) -> None:
        self._pool, self._path, self._options, self._source = pool, path, options, source
        self._repeated: Counter[str] = Counter()
        self._quarantined: list[Quarantined] = []
        self._lines = self._added = self._known = 0

    def run(self, lines: Iterator[Line]) -> IngestReport:
        while page := list(islice(lines, _LINES_PER_BATCH)):
            self._lines += len(page)
            self._store(self._records(page))
        if not self._lines:
            raise IngestError(f"{_shown(self._path)!r} holds no conversations; check the file and its format")
        quarantined = tuple(self._quarantined)
        options, path, accepted = self._options, _shown(self._path), self._added + self._known
        imported = Imported(options.tenant, self._source, path, self._lines, accepted, quarantined)
        self._pool.append(PoolBatch(imported=imported))
        return IngestReport(path, self._lines, self._added, self._known, quarantined, False)

    def _records(self, page: Sequence[Line]) -> list[tuple[int, _Record]]:
        records: list[tuple[int, _Record]] = []
        for line in page:
            if isinstance(line.content, LineError):
                self._refuse(line.number, str(line.content))
                continue
            try:
                records.append((line.number, self._record(line.content)))
            except RecordError as exc:
                self._refuse(line.number, str(exc))
        return records

    def _record(self, conversation: Conversation) -> _Record:
        """The conversation as records; raises RecordError where they cannot be read back."""
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
        return _Record(task, trajectory, evaluation)

    def _trajectory(self, task_id: str, conversation: Conversation) -> Trajectory:
        """Trajectories without a number in the recording are numbered among equal conversations of this file."""
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

    def _store(self, records: Sequence[tuple[int, _Record]]) -> None:
        new, conflicts = store_page(self._append, records)
        self._added += new
        self._known += len(records) - len(conflicts) - new
        self._quarantined += conflicts

    def _append(self, records: Sequence[_Record]) -> int:
        """Returns how many trajectories are new. A stored task is not changed: recordings of it may open
        differently."""
        tasks: dict[str, Task] = {}
        for record in records:
            tasks.setdefault(record.task.id, record.task)
        tasks.update({task.id: task for task in self._pool.tasks(tenant=self._options.tenant, ids=list(tasks))})
        trajectories = {record.trajectory.id: record.trajectory for record in records}
        new = len(trajectories) - self._stored(list(trajectories))
        self._pool.append(
            PoolBatch(
                tasks=list(tasks.values()),
                trajectories=list(trajectories.values()),
                evaluations=[record.evaluation for record in records],
            )
        )
        return new

    def _stored(self, trajectory_ids: Sequence[str]) -> int:
        table = schema.trajectories
        with self._pool.engine.connect() as connection:
            return len(connection.execute(select(table.c.id).where(table.c.id.in_(trajectory_ids))).all())

    def _refuse(self, line: int, reason: str) -> None:
        self._quarantined.append(Quarantined(line, reason))
