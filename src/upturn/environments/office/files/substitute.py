"""What stands in files for characters that they cannot hold: agents can write any, and no export fails over one.

Texts of .docx and .pptx files and titles of charts are XML without escapes; RFC 5545 has no control characters in
.ics files; a subject is one line, and no address has any. Cells are not here, since workbooks have escapes.
"""

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from upturn.environments.office.files.calendar_file import CONTROL
from upturn.environments.office.files.package import NO_XML
from upturn.environments.office.state import Book, Content, Deck, Document, Event, Mail, Sheet, is_outside

_SIGN = "\ufffd"
"""Unicode's own, for characters that cannot be shown."""
_IN_ADDRESS = "-"
"""Allowed on both sides of the @."""
_LINE_END = re.compile(r"[\x0b\x0c\x1c-\x1e\x85]")
"""Control characters that headers of mails are broken at."""
_ANY_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_RETURN = re.compile(r"\r\n?")
ThingT = TypeVar("ThingT")


class Held(NamedTuple, Generic[ThingT]):
    """The supported content and notes on the rest."""

    thing: ThingT
    notes: tuple[str, ...]
    """The replacements, in words."""


def held_content(content: Content) -> Held[Content]:
    """A file of the drive."""
    count = _Count()
    match content:
        case Document() | Deck():
            return count.held(_mapped(content, lambda text: count.put(NO_XML, _RETURN.sub("\n", text))))
        case Book():
            return count.held(
                replace(
                    content,
                    sheets={
                        name: _with_titles(sheet, lambda text: count.put(NO_XML, text))
                        for name, sheet in content.sheets.items()
                    },
                )
            )
    return count.held(content)


def held_event(event: Event) -> Held[Event]:
    """An entry of a calendar."""
    count = _Count()
    title, place, body = (count.put(CONTROL, text) for text in (event.title, event.place, event.body))
    attendees = tuple(replace(attendee, person=count.put_address(attendee.person)) for attendee in event.attendees)
    return count.held(replace(event, title=title, place=place, body=body, attendees=attendees))


def held_mail(mail: Mail) -> Held[Mail]:
    """A mail; its text can hold anything."""
    count = _Count()
    subject, folder = (count.put(_LINE_END, text) for text in (mail.subject, mail.folder))
    to, copied = (tuple(map(count.put_address, people)) for people in (mail.to, mail.cc))
    return count.held(replace(mail, subject=subject, folder=folder, to=to, cc=copied))


class _Count:
    """Replaces unsupported characters and counts them; single use."""

    def __init__(self) -> None:
        self._texts = 0
        self._addresses = 0

    def put(self, unsafe: re.Pattern[str], text: str) -> str:
        replaced, count = unsafe.subn(_SIGN, text)
        self._texts += count
        return replaced

    def put_address(self, who: str) -> str:
        """People of the company have ids, which are checked elsewhere."""
        if not is_outside(who):
            return who
        replaced, count = _ANY_CONTROL.subn(_IN_ADDRESS, who)
        self._addresses += count
        return replaced

    def held(self, thing: ThingT) -> Held[ThingT]:
        replaced = {_SIGN: (self._texts, "such a file"), _IN_ADDRESS: (self._addresses, "an address")}
        return Held(
            thing,
            tuple(
                f"{count} {_noun(count)} became {sign}, since {what} cannot hold them"
                for sign, (count, what) in replaced.items()
                if count
            ),
        )


def _noun(count: int) -> str:
    return "character" if count == 1 else "characters"


def _with_titles(sheet: Sheet, change: Callable[[str], str]) -> Sheet:
    return replace(sheet, charts=tuple(replace(chart, title=change(chart.title)) for chart in sheet.charts))


def _mapped(value: Any, change: Callable[[str], str]) -> Any:  # Any: whatever a record holds
    """The same with all its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_mapped(part, change) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{field.name: _mapped(getattr(value, field.name), change) for field in fields(value)}
        )
    return value
