"""Calendar events as .ics files: times with their zone, organizer, attendees with their responses, cancellation.

Foreign files: times are converted to the office's zone, times without a zone are taken to be in it, whole days last
from midnight to midnight, and seconds are dropped. Refused: recurring events, which the office does not have, and
unknown zones. Not read: reminders, tasks, categories.
"""

import re
from collections.abc import Mapping
from datetime import MAXYEAR, MINYEAR, date, datetime, time, timedelta
from typing import Any, NamedTuple

from upturn.environments.office.files.directory import Directory, id_in, message_id
from upturn.environments.office.files.package import parse_errors, require_extra
from upturn.environments.office.state import Attendee, Event, Response, format_moment, parse_moment
from upturn.errors import FileFormatError

_MAX_BYTES = 4 * 2**20
_MAX_EVENTS = 5_000
_ANSWERS: Mapping[Response, str] = {
    "none": "NEEDS-ACTION",
    "accepted": "ACCEPTED",
    "tentative": "TENTATIVE",
    "declined": "DECLINED",
}
_READ: Mapping[str, Response] = {name: response for response, name in _ANSWERS.items()}
_REPEATS = ("RRULE", "RDATE", "RECURRENCE-ID")
_ONLINE = (
    *("CONFERENCE", "X-MICROSOFT-SKYPETEAMSMEETINGURL", "X-MICROSOFT-ONLINEMEETINGEXTERNALLINK"),
    "X-GOOGLE-CONFERENCE",
)
_MEETING = "https://meet.{domain}/{id}"
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Characters that texts of an event must not contain (RFC 5545, 3.3.11)."""


class Invitation(NamedTuple):
    """An event that was read."""

    event: Event
    """Without an id if the file is foreign."""
    names: dict[str, str]
    """Names of its people by id."""


def event_bytes(event: Event, directory: Directory) -> bytes:
    """The event as an .ics file, equal for equal events; raises FileFormatError for content that it cannot hold."""
    with require_extra(".ics files"):
        from icalendar import Calendar
        from icalendar import Event as Entry
    for text in (event.title, event.place, event.body):
        if CONTROL.search(text):
            raise FileFormatError(f"an entry holds no control characters, got {text[:60]!r}")
    calendar, entry = Calendar(), Entry()
    calendar.add("prodid", "-//Upturn//workspace//EN")
    calendar.add("version", "2.0")
    entry.add("uid", message_id(event.id))
    start, end = (parse_moment(time).replace(tzinfo=directory.zone) for time in (event.start, event.end))
    if start.year == MINYEAR or end.year == MAXYEAR:  # other zones could shift them out of the supported years
        raise FileFormatError(
            f"an entry lies in the years {MINYEAR + 1} to {MAXYEAR - 1}, got {event.start} to {event.end}"
        )
    entry.add("dtstamp", start)
    entry.add("dtstart", start)
    entry.add("dtend", end)
    texts = {"summary": event.title, "location": event.place, "description": event.body}
    for name, text in texts.items():
        if text:
            entry.add(name, text)
    entry.add("status", "CANCELLED" if event.is_cancelled else "CONFIRMED")
    if event.is_online:
        entry.add("conference", _MEETING.format(domain=directory.domain, id=event.id), {"VALUE": "URI"})
    entry.add("organizer", _person(event.organizer, directory, {}))
    for attendee in event.attendees:
        roles = {"ROLE": "REQ-PARTICIPANT", "PARTSTAT": _ANSWERS[attendee.response], "RSVP": "TRUE"}
        entry.add("attendee", _person(attendee.person, directory, roles))
    calendar.add_component(entry)
    calendar.add_missing_timezones(date(start.year, 1, 1), date(end.year + 1, 1, 1))
    return bytes(calendar.to_ical())


def _person(person: str, directory: Directory, parameters: Mapping[str, str]) -> Any:
    from icalendar import vCalAddress

    address = directory.address(person)
    entry = vCalAddress(f"mailto:{address.addr_spec}")
    named = {"CN": address.display_name} if address.display_name else {}
    for name, value in {**named, **parameters}.items():
        entry.params[name] = value
    return entry


def read_events(data: bytes, directory: Directory, *, owner: str) -> list[Invitation]:
    """The events of an .ics file; raises FileFormatError for other, damaged and too large files.

    ``owner``: the organizer of events without one.
    """
    with require_extra(".ics files"):
        from icalendar import Calendar
    if len(data) > _MAX_BYTES:
        raise FileFormatError(f"it has {len(data)} bytes; at most {_MAX_BYTES} are read")
    text = data.strip().removeprefix(b"\xef\xbb\xbf")
    if not text.upper().startswith(b"BEGIN:VCALENDAR"):
        raise FileFormatError("it is no calendar: it does not begin with BEGIN:VCALENDAR")
    if not text.upper().endswith(b"END:VCALENDAR"):
        raise FileFormatError("it is cut off: it does not end with END:VCALENDAR")
    with parse_errors("calendar"):
        invitations: list[Invitation] = []
        for calendar in Calendar.from_ical(text, multiple=True):
            is_cancelled = str(calendar.get("METHOD", "")).upper() == "CANCEL"
            entries = calendar.walk("VEVENT")
            invitations += [_invitation(entry, directory, owner, is_cancelled=is_cancelled) for entry in entries]
        if len(invitations) > _MAX_EVENTS:
            raise FileFormatError(f"it has {len(invitations)} entries; at most {_MAX_EVENTS} are read")
        return invitations


def _invitation(entry: Any, directory: Directory, owner: str, *, is_cancelled: bool) -> Invitation:
    title = str(entry.get("SUMMARY", ""))
    if any(name in entry for name in _REPEATS):
        raise FileFormatError(f"{title[:60]!r} repeats; here every entry is one, so save single ones")
    names: dict[str, str] = {}
    organizer = _person_id(entry["ORGANIZER"], directory, names) if "ORGANIZER" in entry else owner
    listed = entry.get("ATTENDEE", [])
    answers: dict[str, Response] = {}
    for guest in listed if isinstance(listed, list) else [listed]:
        person = _person_id(guest, directory, names)
        if person != organizer:
            answers[person] = _READ.get(str(guest.params.get("PARTSTAT", "")).upper(), "none")
    start, end = _span(entry, title, directory)
    event = Event(
        id=id_in(str(entry.get("UID", ""))),
        title=title,
        start=start,
        end=end,
        organizer=organizer,
        attendees=tuple(Attendee(person, response) for person, response in answers.items()),
        place=str(entry.get("LOCATION", "")),
        body=str(entry.get("DESCRIPTION", "")),
        is_online=any(name in entry for name in _ONLINE),
        is_cancelled=is_cancelled or str(entry.get("STATUS", "")).upper() == "CANCELLED",
    )
    return Invitation(event, names)


def _person_id(value: Any, directory: Directory, names: dict[str, str]) -> str:
    address = str(value)
    address = address[7:] if address.lower().startswith("mailto:") else address
    if "@" not in address:
        raise FileFormatError(f"people have addresses such as mailto:ann@example.org, got {address[:60]!r}")
    person = directory.id_of(address.removeprefix('"').replace('"@', "@"))
    if value.params.get("CN"):
        names[person] = str(value.params["CN"])
    return person


def _span(entry: Any, title: str, directory: Directory) -> tuple[str, str]:
    if "DTSTART" not in entry:
        raise FileFormatError(f"{title[:60]!r} has no start")
    start = _moment(entry["DTSTART"], directory)
    if "DTEND" in entry:
        end = _moment(entry["DTEND"], directory)
    elif "DURATION" in entry:
        end = start + entry["DURATION"].dt
    else:
        end = start if isinstance(entry["DTSTART"].dt, datetime) else start + timedelta(days=1)
    if end < start:
        raise FileFormatError(f"{title[:60]!r} ends before it starts")
    return format_moment(start), format_moment(end)


def _moment(value: Any, directory: Directory) -> datetime:
    """The moment in the office's zone, as a naive datetime."""
    at = value.dt
    if not isinstance(at, datetime):
        return datetime.combine(at, time())
    if at.tzinfo is None:
        if "TZID" in value.params:
            raise FileFormatError(f"nobody knows the time zone {str(value.params['TZID'])[:60]!r}")
    elif getattr(at.tzinfo, "key", None) != directory.zone.key:
        at = at.astimezone(directory.zone)
    return at.replace(tzinfo=None, second=0, microsecond=0)
