"""Measurements on disk, one JSON line each, so that an interrupted run resumes where it stopped.

A line holds what was measured (part, name and options of the subject, seed), a digest of the settings, and the
result. Lines of other settings or options are kept but not read.
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


class CacheKey(NamedTuple):
    """Identifies a measurement under one configuration."""

    part: str
    name: str
    seed: int
    options: str = ""
    """Digest of the options of what is measured; "" = it has none."""


def digest(options: Any) -> str:  # Any: a dataclass instance
    """Equal for equal options of one class."""
    text = json.dumps([type(options).__name__, asdict(options)], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class ResultCache:
    """The measurements of one folder under one configuration, for one process at a time."""

    def __init__(self, folder: Path, settings: Any) -> None:  # Any: a dataclass instance
        """``settings``: everything that determines a result. Raises MeasurementError for a damaged file."""
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / FILE
        self.digest = digest(settings)
        self._results = self._read() if self._path.is_file() else {}

    def get(self, key: CacheKey, kind: type[RecordT], measure: Callable[[], RecordT]) -> RecordT:
        """The stored result, a ``kind`` of record; measured and stored where it is missing."""
        if key in self._results:
            return from_fields(kind, self._results[key])
        result = measure()
        text = fields_json(result)
        line = json.dumps({"settings": self.digest, **key._asdict(), "result": json.loads(text)}) + "\n"
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._results[key] = text
        return result

    def _read(self) -> dict[CacheKey, str]:
        results = {}
        content = self._path.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        if complete != content:  # an interruption cut off the last line
            with self._path.open("rb+") as file:
                file.truncate(len(complete))
        for number, line in enumerate(complete.splitlines(), start=1):
            try:
                fields = json.loads(line)
                if fields["settings"] == self.digest:
                    key = CacheKey(fields["part"], fields["name"], fields["seed"], fields["options"])
                    results[key] = json.dumps(fields["result"])
            except (ValueError, KeyError, TypeError) as exc:
                raise MeasurementError(
                    f"{str(self._path)!r} line {number} is not a measurement ({exc}); move the file away and "
                    "start again"
                ) from exc
        return results
