"""Import of recorded conversations.

Ids are hashes of the content, so that importing a file again, or overlapping files, adds no duplicates. An unusable
line is quarantined with its number and the reason; the others are stored. A completely imported file is recorded;
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
from upturn.pool.batch import Imported, Quarantined, store_page
from upturn.pool.ingestion.formats import NAME_RULE, READERS, Conversation, Defaults, Line, LineError, is_name
from upturn.pool.quality import IMPORTED
from upturn.pool.row import digest
from upturn.pool.store import Pool
from upturn.records import Evaluation, Task, Trajectory, fields_json, from_fields

_LINES_PER_BATCH = 200
_ID_LENGTH = 32
"""Hexadecimal digits of a content id: 128 bits."""


class IngestOptions(NamedTuple):
    """How to read a file, and for which tenant."""

    format: str
    tenant: str = "default"
    family: str | None = None
    """Family of recordings without one; None = the format's default."""
    agent: str | None = None
    """Model of recordings without one; None = the file's name without its ending."""


class IngestReport(NamedTuple):
    """The result of importing a file."""

    path: str
    lines: int
    added: int
    """Number of new trajectories."""
    known: int
    """Number of trajectories that are stored already or repeated in the file."""
    quarantined: tuple[Quarantined, ...]
    is_repeated: bool
    """True = this file was imported before; ``quarantined`` is from that import."""


_Point = tuple[Task, Trajectory, Evaluation]


def ingest(pool: Pool, path: Path, options: IngestOptions) -> IngestReport:
    """Imports the file; raises the errors of ``check_source``."""
    check_source(path, options)
    try:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        source = digest(content, options.format, options.family or "", options.agent or "")
        earlier = earlier_report(pool, path, options.tenant, source)
        if earlier is not None:
            return earlier
        lines = READERS[options.format](path, Defaults(options.family, options.agent or printable(path.stem)))
        return _Import(pool, path, options, source).run(lines)
    except OSError as exc:
        raise unreadable(path, exc) from exc


def check_source(path: Path, options: IngestOptions) -> None:
    """Raises errors in the options or the file, before anything is stored.

    UnknownNameError for an unknown format, ConfigError for invalid names, IngestError for a file that cannot be
    read or is of another kind, e.g. compressed.
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
        raise unreadable(path, exc) from exc
    for prefix, kind in _OTHER_KINDS.items():
        if start.startswith(prefix):
            raise IngestError(f"{printable(path)!r} is {kind}")


_OTHER_KINDS = {
    b"\x1f\x8b": "a gzip file; unpack it first",
    b"PK\x03\x04": "a zip file; unpack it first",
    b"\x28\xb5\x2f\xfd": "a zstd file; unpack it first",
    b"PAR1": "a Parquet file; write it as JSON lines first",
    b"SQLite format 3\0": "a SQLite database; recorded conversations are JSON",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8 first",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8 first",
}
"""Other kinds of files by their first bytes; without this check all of their lines would be quarantined."""


def unreadable(path: Path, exc: OSError) -> IngestError:
    """Returns the error for a file that the system does not read."""
    return IngestError(f"{printable(path)!r} cannot be read: {exc.strerror}; name a file that exists")


def printable(name: str | Path) -> str:
    """Returns the file name as Unicode text; a name may have any bytes."""
    return str(name).encode("utf-8", "replace").decode()


def earlier_report(pool: Pool, path: Path, tenant: str, source: str) -> IngestReport | None:
    """Returns the report of the completed import of the same file with the same options; None = there is none."""
    imports, bad = schema.imports, schema.quarantine
    with pool.engine.connect() as connection:
        query = select(imports).where(imports.c.tenant == tenant, imports.c.source == source)
        earlier = connection.execute(query).first()
        if earlier is None:
            return None
        query = select(bad.c.line, bad.c.reason).where(bad.c.tenant == tenant, bad.c.source == source)
        quarantined = tuple(Quarantined(*row) for row in connection.execute(query.order_by(bad.c.line)))
    return IngestReport(printable(path), earlier.lines, 0, earlier.accepted, quarantined, True)


class _Import:
    """The import of one file; single use."""

    def __init__(self, pool: Pool, path: Path, options: IngestOptions, source: str) -> None:
        self._pool, self._path, self._options, self._source = pool, path, options, source
        self._repeated: Counter[str] = Counter()
        self._quarantined: list[Quarantined] = []
        self._lines = self._added = self._known = 0

    def run(self, lines: Iterator[Line]) -> IngestReport:
        while page := list(islice(lines, _LINES_PER_BATCH)):
            self._import_page(page)
        path, options = printable(self._path), self._options
        if not self._lines:
            raise IngestError(f"{path!r} has no conversations; check the file and its format")
        quarantined, accepted = tuple(self._quarantined), self._added + self._known
        self._pool.append(imported=Imported(options.tenant, self._source, path, self._lines, accepted, quarantined))
        return IngestReport(path, self._lines, self._added, self._known, quarantined, False)

    def _import_page(self, page: Sequence[Line]) -> None:
        points: list[tuple[int, _Point]] = []
        for line in page:
            try:
                if isinstance(line.content, LineError):
                    raise line.content
                points.append((line.number, self._point(line.content)))
            except (LineError, RecordError) as exc:
                self._quarantined.append(Quarantined(line.number, str(exc)))
        new, conflicts = store_page(self._append, points)
        self._lines += len(page)
        self._added += new
        self._known += len(points) - len(conflicts) - new
        self._quarantined += conflicts

    def _point(self, conversation: Conversation) -> _Point:
        """Returns the conversation as records; raises RecordError if they cannot be read back."""
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
        if reward is None and success is not None:
            reward = float(success)
        evaluator = f"{options.format}/1"
        evaluation = Evaluation(
            id=f"imported:{digest(trajectory.id, evaluator)[:_ID_LENGTH]}",
            task_id=task.id,
            trajectory_id=trajectory.id,
            evaluator=evaluator,
            verdict="missing" if success is None else "success" if success else "failure",
            gates=(),
            rewards={"recorded": reward},
            costs={},
            score=reward,
        )
        for record in (task, trajectory, evaluation):
            from_fields(type(record), fields_json(record))
        return task, trajectory, evaluation

    def _trajectory(self, task_id: str, conversation: Conversation) -> Trajectory:
        """Returns the trajectory; one without a number is numbered among equal conversations of the file."""
        version = f"imported:{conversation.agent.replace('@', '_')}@{self._options.format}"
        trajectory = Trajectory(
            id="",
            task_id=task_id,
            agent_version=version,
            turns=conversation.turns,
            final_observation=conversation.final_observation,
            outcome=conversation.outcome,
            origin="rendered",
            error=conversation.error,
        )
        content = digest(fields_json(trajectory))
        number = conversation.number
        if number is None:
            number = self._repeated[content]
            self._repeated[content] += 1
        trajectory_id = f"imported:{digest(content, str(number))[:_ID_LENGTH]}"
        return replace(trajectory, id=trajectory_id, attempt=number)

    def _append(self, points: Sequence[_Point]) -> int:
        """Returns how many trajectories are new. Stored tasks stay, as their recordings may start differently."""
        tasks: dict[str, Task] = {}
        for task, _, _ in points:
            tasks.setdefault(task.id, task)
        tasks.update({task.id: task for task in self._pool.tasks(tenant=self._options.tenant, ids=list(tasks))})
        trajectories = {trajectory.id: trajectory for _, trajectory, _ in points}
        table = schema.trajectories
        with self._pool.engine.connect() as connection:
            stored = connection.execute(select(table.c.id).where(table.c.id.in_(trajectories))).all()
        evaluations = [evaluation for _, _, evaluation in points]
        self._pool.append(*tasks.values(), *trajectories.values(), *evaluations)
        return len(trajectories) - len(stored)
