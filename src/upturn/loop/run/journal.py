"""Durable steps: long work that resumes after an interruption, with the same result as without it.

A run folder holds ``journal.jsonl``, one JSON object per line, appended and synced to disk before a step counts as
done. A finished step never runs again: its recorded result is returned. An interrupted step runs again from its
start, so a step must either have no effect outside the run folder or be safe to repeat.

The first line names the configuration, version and command; a journal with different ones is refused. A last line
cut off by ``kill -9`` or a full disk is dropped and counted; other damage is an error. One process at a time holds
the journal (``flock``). Not covered: network file systems without ``flock``, and steps run from several threads.
"""

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar, cast

from upturn.errors import JournalError
from upturn.records import JsonValue, fields_json, from_fields

FILE_NAME = "journal.jsonl"
FORMAT = 1
"""Incremented when the meaning of the lines changes."""

T = TypeVar("T")
_Event = dict[str, Any]  # one line of the file, as JSON reads it


class JournalKey(NamedTuple):
    """What must be the same for a run to resume."""

    config_hash: str
    version: str
    """Upturn's version."""
    command: str


class StepProgress(NamedTuple):
    """Progress of one step."""

    name: str
    is_finished: bool
    started: str
    """Time of its last start, ISO 8601, UTC."""
    seconds: float | None
    """None means that it is not finished."""
    starts: int
    """More than 1 if it was interrupted."""


class JournalProgress(NamedTuple):
    """Progress of a run."""

    key: JournalKey
    steps: tuple[StepProgress, ...]
    """In the order of their first start."""
    opened: int
    """Times that a process opened the run; 1 means that it was never interrupted."""
    torn_lines: int
    """Cut-off lines dropped so far."""
    pid: int | None
    """Process that holds the journal now; None means that there is none."""


@dataclass(slots=True)
class _Contents:
    """The state that the lines of a journal add up to."""

    key: JournalKey | None = None
    """None without a complete first line."""
    started: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By step: its last start and the number of starts."""
    finished: dict[str, tuple[JsonValue, float]] = field(default_factory=dict)
    """By step: its result and seconds."""
    opened: int = 0
    torn_lines: int = 0
    last_pid: int | None = None
    """The last process that opened the journal."""

    def add(self, event: _Event) -> None:
        """Adds one line; raises KeyError or TypeError for an event that is not of this format."""
        match event["event"]:
            case "journal":
                if event["format"] != FORMAT:
                    raise KeyError(f"format {event['format']!r}, this Upturn reads {FORMAT}")
                self.key = JournalKey(event["config_hash"], event["version"], event["command"])
            case "opened":
                self.opened += 1
                self.torn_lines += event["torn"]
                self.last_pid = event["pid"]
            case "started":
                starts = self.started[event["step"]][1] if event["step"] in self.started else 0
                self.started[event["step"]] = (event["at"], starts + 1)
            case "finished":
                self.finished[event["step"]] = (event["result"], event["seconds"])
            case other:
                raise KeyError(f"event {other!r}")


class Journal:
    """The journal of one run, held by this process until ``close``. Use ``Journal.open``."""

    def __init__(self, path: Path, descriptor: int, contents: _Contents, clock: Callable[[], datetime]) -> None:
        self.path = path
        self._descriptor = descriptor
        self._contents = contents
        self._clock = clock
        self._used_names: set[str] = set()

    @classmethod
    def open(
        cls,
        run_dir: Path,
        *,
        config_hash: str,
        version: str,
        command: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> Self:
        """Opens the journal of a new or interrupted run in ``run_dir``, which is created if missing.

        Raises JournalError when another process holds it, when it belongs to another configuration, version or
        command, or when it is damaged.
        """
        run_dir.mkdir(parents=True, exist_ok=True)
        path = run_dir / FILE_NAME
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            if not _try_lock(descriptor):
                holder = _read(path.read_bytes(), path)[0].last_pid
                raise JournalError(
                    f"process {holder or 'unknown'} is working on the run {str(run_dir)!r}; "
                    "wait until it ends, stop it, or start a new run"
                )
            text = path.read_bytes()
            contents, length = _read(text, path)
            torn = int(length < len(text))
            if torn:
                os.ftruncate(descriptor, length)
            wanted = JournalKey(config_hash, version, command)
            if contents.key is not None:
                _refuse_other(contents.key, wanted, run_dir)
            journal = cls(path, descriptor, contents, clock)
            if contents.key is None:
                journal._append({"event": "journal", "format": FORMAT, **wanted._asdict()})
                _sync_folder(run_dir)
            journal._append({"event": "opened", "pid": os.getpid(), "torn": torn, "at": clock().isoformat()})
        except BaseException:
            os.close(descriptor)
            raise
        return journal

    def step(
        self,
        name: str,
        function: Callable[[], T],
        *,
        encode: Callable[[T], JsonValue],
        decode: Callable[[JsonValue], T],
    ) -> T:
        """The result of the step ``name``: the recorded one if it has finished, else that of ``function``.

        The result has passed through ``encode`` and ``decode`` in both cases, so that resumed and uninterrupted
        runs see the same. Raises JournalError if the name was used before in this process, whatever ``function``
        raises (the step then counts as not finished), and ValueError if the result holds a NaN.
        """
        if name in self._used_names:
            raise JournalError(f"step {name!r} was called twice in one run; give each step a unique name")
        self._used_names.add(name)
        if name not in self._contents.finished:
            started = self._clock()
            self._append({"event": "started", "step": name, "at": started.isoformat()})
            result = encode(function())
            ended = self._clock()
            self._append(
                {
                    "event": "finished",
                    "step": name,
                    "at": ended.isoformat(),
                    "seconds": (ended - started).total_seconds(),
                    "result": result,
                }
            )
        return decode(self._contents.finished[name][0])

    def json_step(self, name: str, function: Callable[[], JsonValue]) -> JsonValue:
        """``step`` for a result that is JSON."""
        return self.step(name, function, encode=lambda result: result, decode=lambda stored: stored)

    def record_step(self, name: str, cls: type[T], function: Callable[[], T]) -> T:
        """``step`` for a result that is a record of class ``cls``."""
        return self.step(
            name,
            function,
            encode=lambda result: cast(JsonValue, json.loads(fields_json(result))),
            decode=lambda stored: from_fields(cls, json.dumps(stored)),
        )

    def has_finished(self, name: str) -> bool:
        """Whether the step's result is recorded."""
        return name in self._contents.finished

    def progress(self) -> JournalProgress:
        """Progress of the run."""
        return _progress(self._contents, pid=os.getpid())

    def close(self) -> None:
        """Releases the journal for other processes; called once."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, event: _Event) -> None:
        line = json.dumps(event, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        remaining = line.encode() + b"\n"
        while remaining:
            remaining = remaining[os.write(self._descriptor, remaining) :]
        os.fsync(self._descriptor)
        # Memory holds what a later process will read, not the objects that were passed in.
        self._contents.add(json.loads(line))


def read_progress(run_dir: Path) -> JournalProgress:
    """Progress of the run in ``run_dir``, which may be active; raises JournalError when there is none."""
    path = run_dir / FILE_NAME
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as exc:
        raise JournalError(f"{str(run_dir)!r} holds no run: {exc.strerror}; name a folder under runs/") from exc
    try:
        is_free = _try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)
    contents, _ = _read(path.read_bytes(), path)
    return _progress(contents, pid=None if is_free else contents.last_pid)


def _progress(contents: _Contents, *, pid: int | None) -> JournalProgress:
    seconds = {name: seconds for name, (_, seconds) in contents.finished.items()}
    steps = tuple(
        StepProgress(name, name in seconds, started, seconds.get(name), starts)
        for name, (started, starts) in contents.started.items()
    )
    key = contents.key or JournalKey("", "", "")
    return JournalProgress(key, steps, contents.opened, contents.torn_lines, pid)


def _try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Takes the lock; False when another process holds it."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(text: bytes, path: Path) -> tuple[_Contents, int]:
    """The state of a journal's complete lines, and their length in bytes."""
    contents = _Contents()
    length = 0
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            event = json.loads(line) if line.endswith(b"\n") else None
        except ValueError as exc:
            if number < len(lines):
                raise _damaged(path, number, "not JSON") from exc
            event = None
        if event is None:
            break
        try:
            contents.add(event)
        except (KeyError, TypeError) as exc:
            raise _damaged(path, number, f"not an event of a journal ({exc})") from exc
        if contents.key is None:
            raise _damaged(path, number, "the first line must name the run")
        length += len(line)
    return contents, length


def _damaged(path: Path, number: int, what: str) -> JournalError:
    return JournalError(f"{str(path)!r} line {number} is damaged: {what}; start a new run")


def _refuse_other(recorded: JournalKey, wanted: JournalKey, run_dir: Path) -> None:
    differences = [
        f"{name} is {old!r} there and {new!r} now"
        for name, old, new in zip(JournalKey._fields, recorded, wanted, strict=True)
        if old != new
    ]
    if differences:
        raise JournalError(
            f"the run {str(run_dir)!r} cannot resume: {'; '.join(differences)}. "
            "Resume it with the same configuration, version and command, or start a new run"
        )


def _sync_folder(folder: Path) -> None:
    """Makes a new file's name durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
