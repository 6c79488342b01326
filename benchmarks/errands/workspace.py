"""The office's whole state: mails, events, sheets and what the user was told.

Immutable: operations return a new workspace that shares what they did not touch, so a snapshot is a reference.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from upturn.records import JsonValue, fields_json, record

Day = Literal["mon", "tue", "wed", "thu", "fri"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri")
FOLDERS = ("inbox", "archive", "finance", "projects", "personal", "sent")
OPENING_HOUR, CLOSING_HOUR = 8, 18
"""Events lie within these full hours."""


@record
class Mail:
    """One message in one folder."""

    id: str
    folder: str
    sender: str
    recipients: tuple[str, ...]
    subject: str
    body: str
    is_read: bool = False


@record
class Event:
    """One calendar entry; entries may overlap."""

    id: str
    title: str
    day: str
    start: int
    """Full hour."""
    end: int
    attendees: tuple[str, ...] = ()

    def overlaps(self, other: "Event") -> bool:
        """True when both share some time; touching ends do not overlap."""
        return self.day == other.day and self.start < other.end and other.start < self.end


@record
class Sheet:
    """Cells by address; a value that starts with ``=`` is a formula."""

    name: str
    cells: Mapping[str, str]


@record
class Message:
    """What the agent last told the user."""

    kind: Literal["answer", "ask", "refuse", "finish"]
    text: str = ""


@record
class Workspace:
    """Everything an agent can see or change."""

    mails: Mapping[str, Mail]
    events: Mapping[str, Event]
    sheets: Mapping[str, Sheet]
    contacts: tuple[str, ...]
    """The directory: the people mail can be sent to."""
    messages: tuple[Message, ...] = ()

    def with_mail(self, mail: Mail) -> "Workspace":
        """A copy in which this mail is new or replaced."""
        return replace(self, mails={**self.mails, mail.id: mail})

    def with_event(self, event: Event) -> "Workspace":
        """A copy in which this event is new or replaced."""
        return replace(self, events={**self.events, event.id: event})

    def without_event(self, event_id: str) -> "Workspace":
        """A copy without this event."""
        return replace(self, events={key: event for key, event in self.events.items() if key != event_id})

    def with_cell(self, sheet: str, cell: str, value: str) -> "Workspace":
        """A copy with one cell written; an empty value empties the cell."""
        cells = {key: text for key, text in self.sheets[sheet].cells.items() if key != cell}
        if value:
            cells[cell] = value
        return replace(self, sheets={**self.sheets, sheet: Sheet(sheet, cells)})

    def with_message(self, message: Message) -> "Workspace":
        """A copy in which the user was told something more."""
        return replace(self, messages=(*self.messages, message))


def fresh_id(prefix: str, taken: Mapping[str, object]) -> str:
    """The lowest unused id ``prefix`` + number above 99: ids of generated worlds have two digits."""
    number = 100
    while f"{prefix}{number}" in taken:
        number += 1
    return f"{prefix}{number}"


def state_hash(workspace: Workspace) -> str:
    """16 hex digits over the whole state; equal states have equal hashes, in whatever order cells were written."""
    sheets = {name: Sheet(name, dict(sorted(sheet.cells.items()))) for name, sheet in workspace.sheets.items()}
    ordered = replace(workspace, sheets=sheets)
    return hashlib.blake2b(fields_json(ordered).encode(), digest_size=8).hexdigest()


def changes(before: Workspace, after: Workspace) -> dict[str, JsonValue]:
    """What differs, by path: ``mail/m27/folder`` → new value; ``…/+`` → contents of new items; ``…/-`` → lost ids.

    The ids of new items are left out, so that two ways of creating the same thing are equal.
    """
    found: dict[str, JsonValue] = {}
    for mail_id, mail in after.mails.items():
        if mail_id in before.mails:
            found |= _fields_changed(f"mail/{mail_id}", before.mails[mail_id], mail, MAIL_FIELDS)
    for event_id, event in after.events.items():
        if event_id in before.events:
            found |= _fields_changed(f"event/{event_id}", before.events[event_id], event, EVENT_FIELDS)
    for name, sheet in after.sheets.items():
        old = before.sheets[name].cells
        for cell in sorted(set(old) | set(sheet.cells)):
            if old.get(cell) != sheet.cells.get(cell):
                found[f"sheet/{name}/{cell}"] = sheet.cells.get(cell)
    new_mails = [_content(mail, MAIL_FIELDS) for key, mail in after.mails.items() if key not in before.mails]
    new_events = [_content(event, EVENT_FIELDS) for key, event in after.events.items() if key not in before.events]
    for path, items in (("mail/+", new_mails), ("event/+", new_events)):
        if items:
            found[path] = sorted(items, key=str)
    for path, lost in (
        ("mail/-", sorted(set(before.mails) - set(after.mails))),
        ("event/-", sorted(set(before.events) - set(after.events))),
    ):
        if lost:
            found[path] = list(lost)
    return found


MAIL_FIELDS = ("folder", "sender", "recipients", "subject", "body", "is_read")
EVENT_FIELDS = ("title", "day", "start", "end", "attendees")


def _plain(value: object) -> JsonValue:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    assert value is None or isinstance(value, str | int | float | bool)
    return value


def _content(item: Mail | Event, fields: tuple[str, ...]) -> JsonValue:
    return {name: _plain(getattr(item, name)) for name in fields}


def _fields_changed(
    path: str, old: Mail | Event, new: Mail | Event, fields: tuple[str, ...]
) -> dict[str, JsonValue]:
    if old is new:
        return {}
    return {
        f"{path}/{name}": _plain(getattr(new, name)) for name in fields if getattr(old, name) != getattr(new, name)
    }
