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
from upturn.environments.office.files.substitute import Held, ThingT, held_content, held_event, held_mail
from upturn.environments.office.state import Mail, Workspace
from upturn.errors import FileFormatError


class Packed(NamedTuple):
    """A workspace as files."""

    parts: dict[str, bytes]
    """By path, such as ``Mail/inbox/…eml``."""
    notes: tuple[str, ...]
    """Differences between files and workspace, since a format cannot hold everything."""


def packed(workspace: Workspace, zone: ZoneInfo) -> Packed:
    """All files; equal for equal workspaces.

    ``zone``: which one the workspace's moments are in, since it says nothing about that. Raises FileFormatError
    naming what cannot be written.
    """
    packing = _Packing(workspace, zone)
    packing.put_files()
    packing.put_mails()
    packing.put_events()
    packing.put_manifest()
    return Packed(packing.parts, tuple(packing.notes))


class _Packing:
    """Single use; files come first, since mails have them attached."""

    def __init__(self, workspace: Workspace, zone: ZoneInfo) -> None:
        self.parts: dict[str, bytes] = {}
        self.notes: list[str] = []
        self._workspace = workspace
        self._zone = zone
        self._directory = directory_of(workspace, zone)
        self._places = Places()
        self._entries: list[Entry] = []

    def put_files(self) -> None:
        """By their paths; those in the bin by their names. In an order of their own, so that equal offices have
        equal bytes whichever file was put in first."""
        for file in sorted(self._workspace.files.values(), key=lambda file: (len(file.id), file.id)):
            folders = (BIN, file.name) if file.is_deleted else (FILES, *file.path.strip("/").split("/"))
            place = self._places.free(*folders, id_=file.id)
            with _named(file.path):
                self.parts[place] = content_bytes(file.path, self._noted(place, held_content(file.content)))
            self._entries.append(Entry.of(place, file))

    def put_mails(self) -> None:
        """By folder; file names begin with the time, so they sort chronologically."""
        conversations = _conversations(self._workspace.mails)
        contents = {
            entry.id: Attachment(entry.path.rpartition("/")[2], self.parts[entry.place]) for entry in self._entries
        }
        for mail in self._workspace.mails.values():
            earlier = conversations[mail.thread or mail.id]
            before = earlier[: earlier.index(mail.id)]
            attached = [contents[attachment] for attachment in mail.attachments if attachment in contents]
            name = f"{mail.at.replace(':', '')} {mail.subject[:60].strip()} ({mail.id}).eml"
            held = held_mail(mail)
            place = self._places.free(MAIL, held.thing.folder, name, id_=mail.id)
            with _named(f"mail {mail.id}"):
                written = self._noted(place, held)
                self.parts[place] = message_bytes(written, self._directory, before=before, attachments=attached)

    def put_events(self) -> None:
        """Events of all calendars, one per file."""
        for event in self._workspace.events.values():
            name = f"{event.start.replace(':', '')} {event.title[:60].strip()} ({event.id}).ics"
            place = self._places.free(CALENDAR, name, id_=event.id)
            with _named(f"event {event.id}"):
                self.parts[place] = event_bytes(self._noted(place, held_event(event)), self._directory)

    def _noted(self, place: str, held: Held[ThingT]) -> ThingT:
        self.notes += [f"{place}: {note}" for note in held.notes]
        return held.thing

    def put_manifest(self) -> None:
        """The manifest with the rest."""
        workspace = self._workspace
        manifest = Manifest(
            form=FORM,
            owner=workspace.owner,
            begun=workspace.now,
            zone=self._zone.key,
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
    """Ids by the id of the first mail, oldest first."""
    conversations: dict[str, list[str]] = {}
    for mail in sorted(mails.values(), key=lambda mail: (bool(mail.thread), mail.at)):
        conversations.setdefault(mail.thread or mail.id, []).append(mail.id)
    return conversations


@contextmanager
def _named(what: str) -> Iterator[None]:
    try:
        yield
    except FileFormatError as exc:
        raise FileFormatError(f"{what}: {exc}") from exc
