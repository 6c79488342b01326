"""The whole state of errands: mails, events, sheets and messages to the user.

Immutable: operations return a new workspace that shares all unchanged parts, so a snapshot is a reference.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Literal

from upturn.records import JsonValue, fields_json, record

Day = Literal["mon", "tue", "wed", "thu", "fri"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri")
FOLDERS = ("inbox", "archive", "finance", "projects", "personal", "sent")
OPENING_HOUR, CLOSING_HOUR = 8, 18
"""Events are within these full hours."""


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
        """True when both share some time; events that only touch do not overlap."""
        return self.day == other.day and self.start < other.end and other.start < self.end


@record
class Sheet:
    """Cells by address; a value that starts with ``=`` is a formula."""

    name: str
    cells: Mapping[str, str]


@record
class Message:
    """A message of the agent to the user."""

    kind: Literal["answer", "ask", "refuse", "finish"]
    text: str = ""


@record
class Workspace:
    """Everything an agent can see or change."""

    mails: Mapping[str, Mail]
    events: Mapping[str, Event]
    sheets: Mapping[str, Sheet]
    contacts: tuple[str, ...]
    """The directory: possible recipients of mails."""
    messages: tuple[Message, ...] = ()

    def with_mail(self, mail: Mail) -> "Workspace":
        """A copy with this mail added or replaced."""
        return replace(self, mails={**self.mails, mail.id: mail})

    def with_event(self, event: Event) -> "Workspace":
        """A copy with this event added or replaced."""
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
        """A copy with one more message to the user."""
        return replace(self, messages=(*self.messages, message))


def fresh_id(prefix: str, used: Mapping[str, object]) -> str:
    """The lowest unused id ``prefix`` + number above 99; ids of generated worlds have two digits."""
    return next(key for number in count(100) if (key := f"{prefix}{number}") not in used)


def state_hash(workspace: Workspace) -> str:
    """16 hex digits over the whole state, independent of the order in which cells were written."""
    sheets = {name: Sheet(name, dict(sorted(sheet.cells.items()))) for name, sheet in workspace.sheets.items()}
    ordered = replace(workspace, sheets=sheets)
    return hashlib.blake2b(fields_json(ordered).encode(), digest_size=8).hexdigest()


_Items = Mapping[str, Mail] | Mapping[str, Event]


def changes(before: Workspace, after: Workspace) -> dict[str, JsonValue]:
    """Differences by path: ``mail/m27/folder`` → new value; ``…/+`` → contents of new items; ``…/-`` → removed ids.

    The ids of new items are omitted, so that the order in which items are created does not matter.
    """
    differences: dict[str, JsonValue] = {}
    kinds: tuple[tuple[str, _Items, _Items, tuple[str, ...]], ...] = (
        ("mail", before.mails, after.mails, ("folder", "sender", "recipients", "subject", "body", "is_read")),
        ("event", before.events, after.events, ("title", "day", "start", "end", "attendees")),
    )
    for kind, old, new, fields in kinds:
        for key, item in new.items():
            if key in old:
                differences |= _changed_fields(f"{kind}/{key}", old[key], item, fields)
    for name, sheet in after.sheets.items():
        old_cells = before.sheets[name].cells
        for cell in sorted(set(old_cells) | set(sheet.cells)):
            if old_cells.get(cell) != sheet.cells.get(cell):
                differences[f"sheet/{name}/{cell}"] = sheet.cells.get(cell)
    for kind, old, new, fields in kinds:
        added = [
            {name: _plain(getattr(item, name)) for name in fields} for key, item in new.items() if key not in old
        ]
        if added:
            differences[f"{kind}/+"] = sorted(added, key=str)
    for kind, old, new, _ in kinds:
        if removed := sorted(set(old) - set(new)):
            differences[f"{kind}/-"] = [*removed]
    return differences


def _plain(value: object) -> JsonValue:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    assert value is None or isinstance(value, str | int | float | bool)
    return value


def _changed_fields(
    path: str, old: Mail | Event, new: Mail | Event, fields: tuple[str, ...]
) -> dict[str, JsonValue]:
    if old is new:
        return {}
    return {
        f"{path}/{name}": _plain(getattr(new, name)) for name in fields if getattr(old, name) != getattr(new, name)
    }
