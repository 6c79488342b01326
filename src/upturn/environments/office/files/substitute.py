"""Substitutes characters that files cannot hold, so that an export never fails because of them.

Texts of .docx and .pptx files and titles of charts are XML without escapes; RFC 5545 excludes control characters in
.ics files; subjects are single lines; addresses have no control characters. Cells of workbooks can hold everything,
since workbooks have escapes.
"""

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from upturn.environments.office.files.calendar_file import CONTROL
from upturn.environments.office.files.package import NO_XML
from upturn.environments.office.state import Book, Content, Deck, Document, Event, Mail, Sheet, is_outside

_SIGN = "\ufffd"
"""The Unicode replacement character."""
_IN_ADDRESS = "-"
"""Allowed on both sides of the @."""
_LINE_END = re.compile(r"[\x0b\x0c\x1c-\x1e\x85]")
"""Control characters at which mail headers are split."""
_ANY_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_RETURN = re.compile(r"\r\n?")
ThingT = TypeVar("ThingT")


class Substituted(NamedTuple, Generic[ThingT]):
    """An item with substitutions, and notes on them."""

    thing: ThingT
    notes: tuple[str, ...]
    """Descriptions of the substitutions."""


def substitute_in_content(content: Content) -> Substituted[Content]:
    """The content of a file of the drive, with substitutions."""
    count = _Count()
    match content:
        case Document() | Deck():
            return count.result(_map_texts(content, lambda text: count.put(NO_XML, _RETURN.sub("\n", text))))
        case Book():
            change = partial(count.put, NO_XML)
            sheets = {name: _with_titles(sheet, change) for name, sheet in content.sheets.items()}
            return count.result(replace(content, sheets=sheets))
    return count.result(content)


def substitute_in_event(event: Event) -> Substituted[Event]:
    """An event with substitutions."""
    count = _Count()
    title, place, body = (count.put(CONTROL, text) for text in (event.title, event.place, event.body))
    attendees = tuple(replace(attendee, person=count.put_address(attendee.person)) for attendee in event.attendees)
    return count.result(replace(event, title=title, place=place, body=body, attendees=attendees))


def substitute_in_mail(mail: Mail) -> Substituted[Mail]:
    """A mail with substitutions; its body needs none."""
    count = _Count()
    subject, folder = (count.put(_LINE_END, text) for text in (mail.subject, mail.folder))
    to, copied = (tuple(map(count.put_address, people)) for people in (mail.to, mail.cc))
    return count.result(replace(mail, subject=subject, folder=folder, to=to, cc=copied))


class _Count:
    """Replaces unsupported characters and counts them; single use."""

    def __init__(self) -> None:
        self._texts = 0
        self._addresses = 0

    def put(self, unsafe: re.Pattern[str], text: str) -> str:
        replaced, count = unsafe.subn(_SIGN, text)
        self._texts += count
        return replaced

    def put_address(self, person: str) -> str:
        """Ids of people of the company are checked elsewhere."""
        if not is_outside(person):
            return person
        replaced, count = _ANY_CONTROL.subn(_IN_ADDRESS, person)
        self._addresses += count
        return replaced

    def result(self, thing: ThingT) -> Substituted[ThingT]:
        counts = ((_SIGN, self._texts, "such a file"), (_IN_ADDRESS, self._addresses, "an address"))
        notes = (
            f"{count} character{'' if count == 1 else 's'} became {sign}, since {what} cannot hold them"
            for sign, count, what in counts
            if count
        )
        return Substituted(thing, tuple(notes))


def _with_titles(sheet: Sheet, change: Callable[[str], str]) -> Sheet:
    return replace(sheet, charts=tuple(replace(chart, title=change(chart.title)) for chart in sheet.charts))


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:  # Any: whatever a record holds
    """The value with all its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_map_texts(part, change) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{field.name: _map_texts(getattr(value, field.name), change) for field in fields(value)}
        )
    return value
