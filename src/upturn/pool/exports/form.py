"""Our own form of a tenant's records: JSON lines with a header and an end.

The first line is ``{"kind": "Export", "version": 1, "record": ExportHeader}``, the last one
``{"kind": "End", "version": 1, "record": ExportEnd}``. Each line between them is a record, in the order of arrival:
``{"kind": "Task", "version": 1, "recorded_at": 1764150000.0, "record": {…}}``. A file without its end is cut off,
and one whose end does not match its lines was changed.

Not here: choosing the records (``exporter``) and storing them again (``reading``).
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from upturn.records import (
    RECORD_VERSION,
    AgentVersion,
    Call,
    CallContent,
    Decision,
    Evaluation,
    Feedback,
    Snapshot,
    Task,
    Trajectory,
    fields_json,
    record,
)

FORM_VERSION = 1
"""Version of the header and the end; readers reject later ones."""

HEADER_KIND = "Export"
END_KIND = "End"

EXPORTED: Mapping[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        Task,
        Decision,
        Call,
        CallContent,
        Trajectory,
        Evaluation,
        Feedback,
        AgentVersion,
        Snapshot,
    )
}
"""The classes of records of a tenant, by the ``kind`` of their lines."""


@record
class ExportHeader:
    """What a file of records contains."""

    tenant: str
    is_anonymised: bool
    """True = privacy findings are replaced; ids are those of the originals."""
    upturn: str
    """Version of the Upturn that wrote it."""
    criteria: str = ""
    """``Selection.criteria`` of the trajectories; empty = all records of the tenant, or a snapshot."""
    snapshot: str | None = None
    """Id of the exported snapshot; None = none."""


@record
class ExportEnd:
    """What a complete file of records has."""

    records: int
    """Number of lines between header and end."""
    digest: str
    """Hexadecimal SHA-256 of all bytes before the end's line."""


def record_line(stored: object, recorded_at: float) -> str:
    """Returns the line of a record, without a line break; raises RecordError as ``fields_json``."""
    kind, fields = type(stored).__name__, fields_json(stored)
    return f'{{"kind":"{kind}","version":{RECORD_VERSION},"recorded_at":{recorded_at!r},"record":{fields}}}'


def header_line(header: ExportHeader) -> str:
    """Returns the first line."""
    return f'{{"kind":"{HEADER_KIND}","version":{FORM_VERSION},"record":{fields_json(header)}}}'


def end_line(end: ExportEnd) -> str:
    """Returns the last line."""
    return f'{{"kind":"{END_KIND}","version":{FORM_VERSION},"record":{fields_json(end)}}}'


class LineDigest:
    """The digest of the lines before the end."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, line: bytes) -> None:
        """Adds a line with its line break."""
        self._hash.update(line)

    @property
    def value(self) -> str:
        """The digest of the lines so far."""
        return self._hash.hexdigest()
