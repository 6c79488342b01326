"""The calendar: listing events, finding free times, creating and changing events, inviting people."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from upturn.environments.office.apps.operation import (
    App,
    Effect,
    Id,
    Impact,
    Moment,
    PageNumber,
    Parameters,
    ParametersT,
    People,
    Text,
    format_page,
)
from upturn.environments.office.state import (
    Attendee,
    Event,
    OperationError,
    Workspace,
    add_minutes,
    check_day,
    day_of,
    is_outside,
    minutes_between,
    outsiders,
    principals,
)

APP = App("calendar")
OPENS, CLOSES = "08:00", "18:00"
"""Working hours, within which free times are searched."""
_LONGEST = 14 * 24 * 60

Day = Annotated[str, AfterValidator(check_day), Field(description="such as 2026-03-02")]


class List(Parameters):
    """Shows the user's events of a day, or of several days, by time."""

    day: Day
    until: Day | None = Field(None, description="the last day; left out = the same one")
    title: str = Field("", description="words that the title contains")
    page: PageNumber = 1


class Read(Parameters):
    """Shows an event with everybody who is invited and what they answered."""

    id: Id


class FreeBusy(Parameters):
    """Shows when people are free on a day, all of them at once, between 08:00 and 18:00."""

    people: People
    day: Day
    minutes: int = Field(30, ge=15, le=600, description="that they are to be free at a stretch")


class Create(Parameters):
    """Enters an event into the user's calendar and invites people to it."""

    title: Text
    start: Moment
    end: Moment
    people: People | None = None
    place: str = ""
    body: str = ""
    is_online: bool = False


class Move(Parameters):
    """Moves an event that the user organises; everybody invited has to answer again."""

    id: Id
    start: Moment
    end: Moment | None = Field(None, description="left out = it stays as long as it was")


class Invite(Parameters):
    """Invites more people to an event that the user organises."""

    id: Id
    people: People


class Respond(Parameters):
    """Answers an invitation."""

    id: Id
    response: Literal["accepted", "tentative", "declined"]


class Cancel(Parameters):
    """Cancels an event that the user organises, and tells everybody invited; the user has to agree first."""

    id: Id
    message: str = ""


def event_of(workspace: Workspace, id_: str) -> Event:
    """An event in the owner's calendar; raises OperationError for any other id."""
    event = workspace.events.get(id_)
    if event is None or not event.concerns(workspace.owner):
        raise OperationError("not_found", f"no event {id_!r} in your calendar; calendar.list finds ids")
    return event


def _organised_event(workspace: Workspace, id_: str) -> Event:
    """A current event that the owner organises; raises OperationError for others."""
    event = event_of(workspace, id_)
    if event.organizer != workspace.owner:
        raise OperationError("forbidden", f"{id_} is organised by {event.organizer}; calendar.respond answers them")
    if event.is_cancelled:
        raise OperationError("bad_value", f"{id_} is cancelled already")
    return event


def _invitation(workspace: Workspace, id_: str) -> Event:
    """An event that the owner is invited to, even if declined; raises OperationError for others."""
    event = workspace.events.get(id_)
    if event is not None and any(attendee.person == workspace.owner for attendee in event.attendees):
        return event
    event_of(workspace, id_)
    raise OperationError("bad_value", f"you are not invited to {id_}; you organise it")


def _line(event: Event) -> str:
    signs = f"{' online' if event.is_online else ''}{' cancelled' if event.is_cancelled else ''}"
    end = event.end[11:] if day_of(event.end) == day_of(event.start) else event.end
    return f"{event.id} {event.start}-{end} {event.title}{signs}"


@APP.operation(List, is_reading=True)
def _list(workspace: Workspace, request: List) -> Effect:
    if request.until is not None and request.until < request.day:
        raise OperationError("bad_value", f"until: {request.until} comes before {request.day}")
    first, last = (
        f"{request.day} 00:00",
        f"{request.until or request.day} 24",
    )  # "24" sorts after all moments of a day
    words = request.title.lower()
    events = [
        event
        for event in workspace.events.values()
        if event.start <= last
        and (event.start >= first or event.end > first)
        and event.concerns(workspace.owner)
        and words in event.title.lower()
    ]
    events.sort(key=lambda event: (event.start, event.id))
    return Effect(workspace, format_page([_line(event) for event in events], page=request.page, empty="no events"))


@APP.operation(Read, is_reading=True)
def _read(workspace: Workspace, request: Read) -> Effect:
    return Effect(workspace, event_text(event_of(workspace, request.id)))


def event_text(event: Event) -> str:
    """The event as text, with all details."""
    lines = [_line(event), f"by {event.organizer}"]
    if event.attendees:
        lines.append(
            "with " + ", ".join(f"{attendee.person} ({attendee.response})" for attendee in event.attendees)
        )
    lines += [f"at {event.place}"] if event.place else []
    lines += [event.body] if event.body else []
    return "\n".join(lines)


@APP.operation(FreeBusy, is_reading=True)
def _free_busy(workspace: Workspace, request: FreeBusy) -> Effect:
    people = principals(workspace, request.people)
    outside = [person for person in people if is_outside(person)]
    if outside:
        raise OperationError("forbidden", f"calendars of people outside cannot be seen: {', '.join(outside)}")
    members = frozenset().union(*(workspace.members(person) for person in people))
    busy = [event for event in workspace.events.values() if any(event.concerns(person) for person in members)]
    spans = free_spans(busy, f"{request.day} {OPENS}", f"{request.day} {CLOSES}", minutes=request.minutes)
    return Effect(workspace, "\n".join(f"{start[11:]}-{end[11:]}" for start, end in spans) or "no time is free")


def free_spans(events: Iterable[Event], start: str, end: str, *, minutes: int) -> list[tuple[str, str]]:
    """The maximal spans of at least ``minutes`` within [start, end] that no event overlaps, in order."""
    spans: list[tuple[str, str]] = []
    free_from = start
    overlapping = sorted((event.start, event.end) for event in events if event.overlaps(start, end))
    for busy_from, busy_until in [*overlapping, (end, end)]:
        if busy_from > free_from and minutes_between(free_from, min(busy_from, end)) >= minutes:
            spans.append((free_from, min(busy_from, end)))
        free_from = max(free_from, busy_until)
    return spans


def new_event(workspace: Workspace, request: Create) -> Event:
    """The requested event with a placeholder id; raises OperationError for invalid times."""
    _check_span(request.start, request.end)
    return Event(
        id="event",
        title=request.title,
        start=request.start,
        end=request.end,
        organizer=workspace.owner,
        attendees=_attendees(workspace, request.people or ()),
        place=request.place,
        body=request.body,
        is_online=request.is_online,
    )


def _check_span(start: str, end: str) -> None:
    length = minutes_between(start, end)
    if not 0 < length <= _LONGEST:
        raise OperationError("bad_value", f"end must come after start, within two weeks; got {start} to {end}")


def _attendees(workspace: Workspace, people: Sequence[str]) -> tuple[Attendee, ...]:
    """The people and the members of these groups, except the owner, sorted."""
    ids = principals(workspace, tuple(people))
    invited = frozenset().union(*(workspace.members(id_) for id_ in ids))
    return tuple(Attendee(person) for person in sorted(invited) if person != workspace.owner)


def _outside(workspace: Workspace, event: Event) -> tuple[str, ...]:
    return outsiders(workspace, (event.organizer, *(attendee.person for attendee in event.attendees)))


def register_event_operation(
    app: App,
    parameters: type[ParametersT],
    draft: Callable[[Workspace, ParametersT], Event],
    *,
    text: Callable[[ParametersT], str] | None = None,
) -> None:
    """Registers an operation that saves the drafted event; notifying external people needs the user's agreement.

    ``text``: the result for a changed event; None = the event is new, and the result has its id.
    """

    def impact(workspace: Workspace, request: ParametersT) -> Impact | None:
        event = draft(workspace, request)
        outside = _outside(workspace, event)
        return Impact("send", event_text(event), outside) if outside else None

    @app.operation(parameters, impact=impact)
    def _run(workspace: Workspace, request: ParametersT) -> Effect:
        event = draft(workspace, request)
        return _add(workspace, event) if text is None else Effect(workspace.with_items(event), text(request))


def _add(workspace: Workspace, event: Event) -> Effect:
    """Adds the event under a new id; the result text has the id and the owner's overlapping events."""
    after, id_ = workspace.new_id("e")
    clashes = [
        other.id
        for other in workspace.events.values()
        if other.overlaps(event.start, event.end) and other.concerns(workspace.owner)
    ]
    answer = f"{id_}, overlaps {', '.join(sorted(clashes))}" if clashes else id_
    return Effect(after.with_items(replace(event, id=id_)), answer)


def _moved_event(workspace: Workspace, request: Move) -> Event:
    event = _organised_event(workspace, request.id)
    end = request.end or add_minutes(request.start, minutes=minutes_between(event.start, event.end))
    _check_span(request.start, end)
    attendees = tuple(Attendee(attendee.person) for attendee in event.attendees)
    return replace(event, start=request.start, end=end, attendees=attendees)


def _with_invited(workspace: Workspace, request: Invite) -> Event:
    event = _organised_event(workspace, request.id)
    invited = {attendee.person for attendee in event.attendees}
    more = [attendee for attendee in _attendees(workspace, request.people) if attendee.person not in invited]
    return replace(event, attendees=tuple(sorted((*event.attendees, *more), key=lambda attendee: attendee.person)))


def _with_response(workspace: Workspace, request: Respond) -> Event:
    """The event with the owner's response, even a decline that hid the event from their calendar."""
    event = _invitation(workspace, request.id)
    answered = tuple(
        Attendee(attendee.person, request.response) if attendee.person == workspace.owner else attendee
        for attendee in event.attendees
    )
    return replace(event, attendees=answered)


register_event_operation(APP, Create, new_event)
register_event_operation(APP, Move, _moved_event, text=lambda _: "moved")
register_event_operation(APP, Invite, _with_invited, text=lambda _: "invited")
register_event_operation(APP, Respond, _with_response, text=lambda request: request.response)


def _cancel_impact(workspace: Workspace, request: Cancel) -> Impact:
    event = _organised_event(workspace, request.id)
    return Impact("delete", "\n".join((event_text(event), request.message)).strip(), _outside(workspace, event))


@APP.operation(Cancel, impact=_cancel_impact)
def _cancel(workspace: Workspace, request: Cancel) -> Effect:
    """The event stays in the calendar, as cancelled, with the message as its text."""
    event = _organised_event(workspace, request.id)
    cancelled = replace(event, is_cancelled=True, body=request.message or event.body)
    return Effect(workspace.with_items(cancelled), "cancelled")
