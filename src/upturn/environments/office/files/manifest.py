"""The manifest, ``workspace.json``: everything that no mail, calendar or office file can hold."""

import json
from dataclasses import field

from upturn.environments.office.state import Channel, Chat, File, Group, Label, Page, Person, Right, Rule
from upturn.errors import FileFormatError, RecordError
from upturn.records import fields_json, from_fields, record

MANIFEST = "workspace.json"
FORM = 1
"""Version of the file's meaning."""


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

    def file(self, without: File) -> File:
        """The file with the content of ``without``."""
        return File(
            id=self.id,
            path=self.path,
            content=without.content,
            owner=self.owner,
            by=self.by,
            at=self.at,
            rights=self.rights,
            label=self.label,
            is_deleted=self.is_deleted,
        )


@record
class Manifest:
    """The content of the manifest."""

    form: int
    owner: str
    begun: str
    """The moment at which it was exported."""
    zone: str
    """Of all moments, such as ``Europe/Berlin``."""
    seed: int = 0
    people: tuple[Person, ...] = ()
    groups: tuple[Group, ...] = ()
    rules: tuple[Rule, ...] = ()
    pages: tuple[Page, ...] = ()
    chats: tuple[Chat, ...] = ()
    channels: tuple[Channel, ...] = ()
    files: tuple[Entry, ...] = ()


def manifest_bytes(manifest: Manifest) -> bytes:
    """As JSON that people can read and change."""
    return f"{json.dumps(json.loads(fields_json(manifest)), ensure_ascii=False, indent=1)}\n".encode()


def read_manifest(data: bytes) -> Manifest:
    """Raises FileFormatError naming every bad field."""
    try:
        manifest = from_fields(Manifest, data)
    except RecordError as exc:
        cure = "take the one that was exported, or none, and say whose the office is"
        raise FileFormatError(f"{MANIFEST} cannot be read ({exc}); {cure}") from exc
    if manifest.form != FORM:
        raise FileFormatError(f"{MANIFEST} has form {manifest.form}; known: {FORM}")
    return manifest
