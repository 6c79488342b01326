"""A file that ``upturn pool export`` wrote: its header, and its records with their rows.

Order of checks: header (form, version, tenant), then the digest of the whole file, then each line. Not here:
storing the records (``reading``).
"""

import hashlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from upturn.errors import IngestError, RecordError
from upturn.pool.exports.form import (
    END_KIND,
    EXPORTED,
    FORM_VERSION,
    HEADER_KIND,
    ExportEnd,
    ExportHeader,
    LineDigest,
)
from upturn.pool.imported import Quarantined
from upturn.pool.ingestion import printable, unreadable
from upturn.pool.ingestion.formats import LineError, text_lines
from upturn.pool.row import PoolRecord, ReadyRow, ready_row
from upturn.records import (
    RECORD_VERSION,
    AgentVersion,
    Call,
    CallContent,
    Decision,
    Feedback,
    Snapshot,
    Task,
    from_fields,
)

_KEYS = {"kind", "version", "recorded_at", "record"}


class ReadLine(NamedTuple):
    """A line with a record of the file's tenant."""

    line: int
    row: ReadyRow


class FileContent(NamedTuple):
    """What identifies a file."""

    digest: str
    """Hexadecimal SHA-256 of its bytes."""
    lines: int


class ExportFile:
    """A file of records whose header is valid."""

    def __init__(self, path: Path) -> None:
        """Raises IngestError for a file that is no export, or one of a newer version."""
        self.path = path
        try:
            _, first = next(text_lines(path), (1, b""))
        except OSError as exc:
            raise unreadable(path, exc) from exc
        self.header = _header(path, first)

    def check_content(self) -> FileContent:
        """Returns what identifies the file; raises IngestError if its lines do not match its end."""
        whole, lines, before = hashlib.sha256(), 0, LineDigest()
        last = b""
        try:
            with self.path.open("rb") as file:
                while block := file.readline(2**20):
                    whole.update(block)
                    lines += not last or last.endswith(b"\n")  # a longer line has several blocks
                    before.add(last)
                    last = block
        except OSError as exc:
            raise unreadable(self.path, exc) from exc
        end = _end(last)
        counted = ExportEnd(lines - 2, before.value)  # without header and end
        if end is not None and end != counted:
            raise IngestError(
                f"{printable(self.path)!r} was changed after it was written: its end names {end.records} records "
                f"with digest {end.digest}, it has {counted.records} with {counted.digest}; nothing is imported. "
                "Export it again, with a selection if only a part is wanted; two exports cannot be joined"
            )
        return FileContent(whole.hexdigest(), lines)

    def lines(self) -> Iterator[ReadLine | Quarantined]:
        """Yields the records between header and end, or the bad lines. The last one is bad if there is no end."""
        number, is_ended = 1, False
        for number, text in islice(text_lines(self.path), 1, None):
            is_ended = not isinstance(text, LineError) and _end(text) is not None
            if not is_ended:
                yield _record(number, text, self.header.tenant)
        if not is_ended:
            yield Quarantined(
                number + 1,
                f"the file is cut off after line {number} ({self.path.stat().st_size} bytes): its end is missing; "
                "the complete lines before are imported; export it again for the rest",
            )


def _header(path: Path, text: bytes | LineError) -> ExportHeader:
    name = printable(path)
    envelope = {} if isinstance(text, LineError) else _envelope(text)
    if envelope.get("kind") != HEADER_KIND:
        raise IngestError(
            f"{name!r} is not an export of a pool: its first line is no header of kind {HEADER_KIND!r}; name a "
            "file that `upturn pool export` wrote, or import recordings with `upturn ingest`"
        )
    if envelope.get("version") != FORM_VERSION:
        raise IngestError(
            f"{name!r} is an export of version {envelope.get('version')!r}; this Upturn reads version "
            f"{FORM_VERSION}; use the Upturn that wrote it"
        )
    try:
        return from_fields(ExportHeader, to_json(envelope.get("record")))
    except RecordError as exc:
        raise IngestError(f"the header of {name!r} cannot be read: {exc}; export the file again") from exc


def _end(text: bytes) -> ExportEnd | None:
    """Returns the end of an export; None = the line is something else."""
    envelope = _envelope(text) if text.startswith(b'{"kind":"End"') else {}
    try:
        return from_fields(ExportEnd, to_json(envelope["record"])) if envelope.get("kind") == END_KIND else None
    except (KeyError, RecordError):
        return None


def _envelope(text: bytes) -> dict[str, Any]:
    """Returns the line as an object; empty = it is something else."""
    try:
        envelope = from_json(text, allow_inf_nan=False)
    except ValueError:
        return {}
    return envelope if isinstance(envelope, dict) else {}


def _record(number: int, text: bytes | LineError, tenant: str) -> ReadLine | Quarantined:
    """Returns the record of a line with its row, or why it has none."""
    try:
        if isinstance(text, LineError):
            raise text
        recorded_at, record = _parse(text)
        if (problem := _foreign(record, tenant)) is not None:
            raise LineError(problem)
        return ReadLine(number, ready_row(record, recorded_at=recorded_at))
    except (LineError, RecordError) as exc:
        return Quarantined(number, str(exc))


def _parse(text: bytes) -> tuple[float, PoolRecord]:
    """Returns the time and the record; raises LineError and RecordError."""
    try:
        envelope = from_json(text, allow_inf_nan=False)
    except ValueError as exc:
        raise LineError(f"not JSON: {exc}") from exc
    if not isinstance(envelope, dict) or set(envelope) != _KEYS:
        raise LineError(f"a record is an object with the keys {', '.join(sorted(_KEYS))}; got other keys")
    if envelope["kind"] not in EXPORTED:
        raise LineError(f"unknown kind {envelope['kind']!r:.100}; known: {', '.join(EXPORTED)}")
    if envelope["version"] != RECORD_VERSION:
        raise LineError(
            f"record version {envelope['version']!r:.100} is not readable; this Upturn reads {RECORD_VERSION}; use "
            "the Upturn that wrote it"
        )
    recorded_at = envelope["recorded_at"]
    if not isinstance(recorded_at, float):
        raise LineError(f"recorded_at must be seconds since 1970, got {recorded_at!r:.100}")
    return recorded_at, from_fields(EXPORTED[envelope["kind"]], to_json(envelope["record"]))


def _foreign(record: PoolRecord, tenant: str) -> str | None:
    """Returns why the record cannot be in an export of this tenant; None = it can."""
    match record:
        case Snapshot():
            named = record.tenants
        case AgentVersion():
            named = record.tenants or (tenant,)
        case Task() | Decision() | Call() | CallContent() | Feedback():
            named = (record.tenant,)
        case _:
            return None  # they have the tenant of their task or trajectory
    if named == (tenant,):
        return None
    return f"{type(record).__name__} {record.id!r} belongs to {', '.join(named)}, the export to {tenant!r}"
