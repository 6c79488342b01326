"""Measurements on disk, one JSON line each: a run that was stopped goes on where it was.

A line says what was measured (part, contender with its options, seed), under which settings, and what came out.
Lines of other settings or options stay where they are and are not read, so nothing is mixed up.
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from upturn.errors import MeasurementError
from upturn.records import fields_json, from_fields

FILE = "measurements.jsonl"

RecordT = TypeVar("RecordT")


class Entry(NamedTuple):
    """What was measured."""

    part: str
    contender: str
    seed: int
    options: str = ""
    """Digest of the contender's own; "" = it has none."""


def digest(options: Any) -> str:  # Any: a dataclass instance
    """Equal for equal options of one kind."""
    written = json.dumps([type(options).__name__, asdict(options)], sort_keys=True)
    return hashlib.blake2b(written.encode(), digest_size=8).hexdigest()


class Ledger:
    """The measurements of one folder under one configuration. One process at a time."""

    def __init__(self, folder: Path, settings: Any) -> None:  # Any: a dataclass instance
        """``settings``: everything that decides a result. Raises MeasurementError for a damaged file."""
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / FILE
        self.key = digest(settings)
        self._found = dict(self._read())

    def measured(self, entry: Entry, kind: type[RecordT], measure: Callable[[], RecordT]) -> RecordT:
        """The stored result, a ``kind`` of record; measured and stored first where there is none."""
        if entry in self._found:
            return from_fields(kind, self._found[entry])
        result = measure()
        written = fields_json(result)
        line = json.dumps({"settings": self.key, **entry._asdict(), "result": json.loads(written)}) + "\n"
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._found[entry] = written
        return result

    def has(self, entry: Entry) -> bool:
        """Whether it was measured."""
        return entry in self._found

    def _read(self) -> list[tuple[Entry, str]]:
        if not self._path.is_file():
            return []
        found = []
        content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:  # the line that an interruption cut off
            with self._path.open("rb+") as file:
                file.truncate(len(whole))
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                read = json.loads(line)
                if read["settings"] == self.key:
                    entry = Entry(read["part"], read["contender"], read["seed"], read["options"])
                    found.append((entry, json.dumps(read["result"])))
            except (ValueError, KeyError, TypeError) as exc:
                raise MeasurementError(
                    f"{str(self._path)!r} line {number} is no measurement ({exc}); move the file away, begin again"
                ) from exc
        return found
