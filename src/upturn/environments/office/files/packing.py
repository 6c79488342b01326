"""Converts a workspace to files in memory, by path."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple
from zoneinfo import ZoneInfo

from upturn.environments.office.files.calendar_file import event_bytes
from upturn.environments.office.files.content import content_bytes
from upturn.environments.office.files.directory import directory_of
from upturn.environments.office.files.manifest import FORM, MANIFEST, Entry, Manifest, manifest_bytes
from upturn.environments.office.files.message import Attachment, message_bytes
from upturn.environments.office.files.paths import BIN, CALENDAR, FILES, MAIL, Places
from upturn.environments.office.files.substitute import (
    Substituted,
    ThingT,
    substitute_in_content,
    substitute_in_event,
    substitute_in_mail,
)
from upturn.environments.office.state import COMPANY, Mail, Workspace
from upturn.errors import FileFormatError


class Packed(NamedTuple):
    """A workspace as files."""

    parts: dict[str, bytes]
    """By path, such as ``Mail/inbox/…eml``."""
    notes: tuple[str, ...]
    """Content that the formats cannot hold."""


def pack(workspace: Workspace, zone: ZoneInfo, *, domain: str = COMPANY) -> Packed:
    """All files; equal for equal workspaces.

    ``zone``: the time zone of the workspace's moments. ``domain``: of the addresses of the company's people.

    Raises FileFormatError naming content that cannot be written.
    """
    packing = _Packing(workspace, zone, domain)
    packing.put_files()
    packing.put_mails()
    packing.put_events()
    packing.put_manifest()
    return Packed(packing.parts, tuple(packing.notes))


class _Packing:
    """Single use. Files come first because mails attach them."""

    def __init__(self, workspace: Workspace, zone: ZoneInfo, domain: str) -> None:
        self.parts: dict[str, bytes] = {}
        self.notes: list[str] = []
        self._workspace = workspace
        self._zone = zone
        self._directory = directory_of(workspace, zone, domain)
        self._places = Places()
        self._entries: list[Entry] = []

    def put_files(self) -> None:
        """Adds files by path, deleted ones by name. They are sorted, so that equal offices give equal bytes."""
        for file in sorted(self._workspace.files.values(), key=lambda file: (len(file.id), file.id)):
            folders = (BIN, file.name) if file.is_deleted else (FILES, *file.path.strip("/").split("/"))
            place = self._places.free(*folders, id_=file.id)
            with _error_context(file.path):
                self.parts[place] = content_bytes(
                    file.path, self._record_notes(place, substitute_in_content(file.content))
                )
            self._entries.append(Entry.of(place, file))

    def put_mails(self) -> None:
        """Adds mails by folder; file names start with the time, so they sort chronologically."""
        conversations = _conversations(self._workspace.mails)
        contents = {
            entry.id: Attachment(entry.path.rpartition("/")[2], self.parts[entry.place]) for entry in self._entries
        }
        for mail in self._workspace.mails.values():
            earlier = conversations[mail.thread or mail.id]
            before = earlier[: earlier.index(mail.id)]
            attached = [contents[attachment] for attachment in mail.attachments if attachment in contents]
            name = f"{mail.at.replace(':', '')} {mail.subject[:60].strip()} ({mail.id}).eml"
            substituted = substitute_in_mail(mail)
            place = self._places.free(MAIL, substituted.thing.folder, name, id_=mail.id)
            with _error_context(f"mail {mail.id}"):
                written = self._record_notes(place, substituted)
                self.parts[place] = message_bytes(written, self._directory, before=before, attachments=attached)

    def put_events(self) -> None:
        """Adds the events of all calendars, one per file."""
        for event in self._workspace.events.values():
            name = f"{event.start.replace(':', '')} {event.title[:60].strip()} ({event.id}).ics"
            place = self._places.free(CALENDAR, name, id_=event.id)
            with _error_context(f"event {event.id}"):
                self.parts[place] = event_bytes(
                    self._record_notes(place, substitute_in_event(event)), self._directory
                )

    def _record_notes(self, place: str, substituted: Substituted[ThingT]) -> ThingT:
        self.notes += [f"{place}: {note}" for note in substituted.notes]
        return substituted.thing

    def put_manifest(self) -> None:
        """Adds the manifest with the rest."""
        workspace = self._workspace
        manifest = Manifest(
            form=FORM,
            owner=workspace.owner,
            begun=workspace.now,
            zone=self._zone.key,
            domain=self._directory.domain,
            seed=workspace.seed,
            people=tuple(workspace.people.values()),
            groups=tuple(workspace.groups.values()),
            rules=tuple(workspace.rules.values()),
            pages=tuple(workspace.pages.values()),
            chats=tuple(workspace.chats.values()),
            channels=tuple(workspace.channels.values()),
            files=tuple(self._entries),
        )
        self.parts[MANIFEST] = manifest_bytes(manifest)


def _conversations(mails: Mapping[str, Mail]) -> dict[str, list[str]]:
    """Ids of each conversation's mails, oldest first, by the id of the first mail."""
    conversations: dict[str, list[str]] = {}
    for mail in sorted(mails.values(), key=lambda mail: (bool(mail.thread), mail.at)):
        conversations.setdefault(mail.thread or mail.id, []).append(mail.id)
    return conversations


@contextmanager
def _error_context(what: str) -> Iterator[None]:
    try:
        yield
    except FileFormatError as exc:
        raise FileFormatError(f"{what}: {exc}") from exc
