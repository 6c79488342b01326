"""The calendar app: events with attendees on full hours of a working week; overlaps are allowed and reported."""

from dataclasses import replace

from benchmarks.errands.operation import Arguments, Effect, Operation, OperationError, Parameter
from benchmarks.errands.workspace import CLOSING_HOUR, Event, Workspace, fresh_id


def _event(workspace: Workspace, event_id: str) -> Event:
    event = workspace.events.get(event_id)
    if event is None:
        raise OperationError("not_found", f"no event {event_id!r}; use calendar.list to find ids")
    return event


def _with_event(workspace: Workspace, event: Event, done: str) -> Effect:
    """Adds or replaces the event; the text names the events that it overlaps."""
    if not event.start < event.end <= CLOSING_HOUR:
        raise OperationError(
            "bad_value", f"an event must end after it starts and by {CLOSING_HOUR}, got {event.start}-{event.end}"
        )
    clashes = [other.id for other in workspace.events.values() if other.id != event.id and event.overlaps(other)]
    text = f"{done}, overlaps {' '.join(clashes)}" if clashes else done
    return Effect(workspace.with_event(event), text)


def _list(workspace: Workspace, arguments: Arguments) -> Effect:
    day, title = arguments.text("day"), arguments.text("title")
    events = [event for event in workspace.events.values() if event.day == day and title in event.title]
    events.sort(key=lambda event: (event.start, event.end, event.id))
    lines = [f"{event.id} {event.title} {event.start}-{event.end}" for event in events]
    return Effect(workspace, "\n".join(lines) or "no events")


def _read(workspace: Workspace, arguments: Arguments) -> Effect:
    event = _event(workspace, arguments.text("id"))
    attendees = ",".join(event.attendees) or "nobody"
    return Effect(workspace, f"{event.title} {event.day} {event.start}-{event.end} with {attendees}")


def _create(workspace: Workspace, arguments: Arguments) -> Effect:
    people = arguments.people("with")
    for person in people:
        if person not in workspace.contacts:
            raise OperationError("not_found", f"nobody called {person!r} in the directory")
    event = Event(
        fresh_id("e", workspace.events),
        arguments.text("title"),
        arguments.text("day"),
        arguments.hour("start"),
        arguments.hour("end"),
        tuple(sorted(people)),
    )
    return _with_event(workspace, event, "created")


def _move(workspace: Workspace, arguments: Arguments) -> Effect:
    event = _event(workspace, arguments.text("id"))
    start = arguments.hour("start")
    moved = replace(event, day=arguments.text("day"), start=start, end=start + event.end - event.start)
    return _with_event(workspace, moved, "moved")


def _cancel(workspace: Workspace, arguments: Arguments) -> Effect:
    event = _event(workspace, arguments.text("id"))
    return Effect(workspace.without_event(event.id), "cancelled")


_ID = Parameter("id")
_DAY = Parameter("day", "day")
_START = Parameter("start", "hour")

OPERATIONS = (
    Operation("calendar", "list", (_DAY, Parameter("title", is_required=False)), _list),
    Operation("calendar", "read", (_ID,), _read),
    Operation(
        "calendar",
        "create",
        (
            Parameter("title"),
            _DAY,
            _START,
            Parameter("end", "hour"),
            Parameter("with", "people", is_required=False),
        ),
        _create,
    ),
    Operation("calendar", "move", (_ID, _DAY, _START), _move),
    Operation("calendar", "cancel", (_ID,), _cancel),
)
