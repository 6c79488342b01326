"""The manifest, ``workspace.json``: everything that no mail, calendar or office file can hold."""

import json
from dataclasses import field, replace
from typing import Self

from upturn.environments.office.state import (
    COMPANY,
    Channel,
    Chat,
    File,
    Group,
    Label,
    OperationError,
    Page,
    Person,
    Right,
    Rule,
    is_address,
    parse_moment,
)
from upturn.errors import FileFormatError, RecordError
from upturn.records import fields_json, from_fields, record

MANIFEST = "workspace.json"
FORM = 1
"""Version of the format."""
_FILE_FIELDS = ("id", "path", "owner", "by", "at", "rights", "label", "is_deleted")
"""Fields that an entry shares with its file."""


@record
class Entry:
    """A file of the drive without its content."""

    place: str
    """Under ``Files`` or the bin, in the exported folder."""
    id: str
    path: str
    owner: str
    by: str
    at: str
    rights: dict[str, Right] = field(default_factory=dict)
    label: Label = "general"
    is_deleted: bool = False

    @classmethod
    def of(cls, place: str, file: File) -> Self:
        """The entry of a file at this place."""
        return cls(place, **{name: getattr(file, name) for name in _FILE_FIELDS})

    def file(self, content: File) -> File:
        """This file with the content of another one."""
        return replace(content, **{name: getattr(self, name) for name in _FILE_FIELDS})


@record
class Manifest:
    """The content of the manifest."""

    form: int
    owner: str
    begun: str
    """The moment of the export."""
    zone: str
    """Time zone of all moments, such as ``Europe/Berlin``."""
    domain: str = COMPANY
    """Domain of the company's addresses in mails and calendar entries, such as ``contoso.example``."""
    seed: int = 0
    people: tuple[Person, ...] = ()
    groups: tuple[Group, ...] = ()
    rules: tuple[Rule, ...] = ()
    pages: tuple[Page, ...] = ()
    chats: tuple[Chat, ...] = ()
    channels: tuple[Channel, ...] = ()
    files: tuple[Entry, ...] = ()


def manifest_bytes(manifest: Manifest) -> bytes:
    """The manifest as indented JSON."""
    return f"{json.dumps(json.loads(fields_json(manifest)), ensure_ascii=False, indent=1)}\n".encode()


def read_manifest(data: bytes) -> Manifest:
    """The manifest in this JSON; raises FileFormatError naming every invalid field."""
    try:
        manifest = from_fields(Manifest, data)
    except RecordError as exc:
        cure = "take the one that was exported, or none, and say whose the office is"
        raise FileFormatError(f"{MANIFEST} cannot be read ({exc}); {cure}") from exc
    if manifest.form != FORM:
        raise FileFormatError(f"{MANIFEST} has form {manifest.form}; known: {FORM}")
    if not is_address(f"a@{manifest.domain}") or manifest.domain != manifest.domain.lower():
        raise FileFormatError(
            f"{MANIFEST}: domain is one such as contoso.example, in lower case; got {manifest.domain!r}"
        )
    try:
        parse_moment(manifest.begun)
    except OperationError as exc:
        raise FileFormatError(f"{MANIFEST}: begun cannot be read: {exc}") from exc
    return manifest
