"""Tasks that change the calendar: moving, cancelling, inviting, answering invitations."""

from dataclasses import replace

from upturn.environments.office.generation import (
    DAYS,
    Draft,
    Family,
    Scene,
    call,
    earliest_common_start,
    random_start,
    with_agreement,
)
from upturn.environments.office.state import Event, Response, minutes_between

_RESPONSES: dict[str, Response] = {"accept": "accepted", "decline": "declined"}
_SUBJECTS = ("your invitation", "about your event", "my answer", "why i cannot come", "the invitation")


def _own_event(scene: Scene) -> Event:
    """An event of the owner, with lookalikes: the same title on another day, a similar title on this day."""
    title, (day, other_day) = scene.words.title(), scene.rng.sample(DAYS, 2)
    minutes = scene.rng.choice((30, 45, 60, 90))
    event = scene.add_event(title, random_start(scene, day), minutes=minutes, people=scene.people(2))
    scene.add_event(title, random_start(scene, other_day), people=scene.people(2))
    scene.add_event(scene.words.similar(title), random_start(scene, day), people=scene.people(1))
    return event


def _move(scene: Scene) -> Draft:
    event = _own_event(scene)
    day = event.start[:10]
    start = random_start(scene, next(candidate for candidate in scene.rng.sample(DAYS, 2) if candidate != day))
    return Draft.with_finish(
        {"title": event.title, "day": day, "start": start},
        call("calendar.list", day=day, title=event.title),
        call("calendar.move", id=event.id, start=start),
    )


def _move_after(scene: Scene) -> Draft:
    """The event moves to the end of an event of another day."""
    event = _own_event(scene)
    day = event.start[:10]
    after_day = next(candidate for candidate in scene.rng.sample(DAYS, 2) if candidate != day)
    title = next(candidate for candidate in scene.words.titles(2) if candidate != event.title)
    minutes = scene.rng.choice((30, 45, 60, 75, 90, 105))
    after = scene.add_event(title, random_start(scene, after_day), minutes=minutes, people=scene.people(1))
    scene.add_event(scene.words.similar(title), random_start(scene, after_day), minutes=60, people=scene.people(1))
    return Draft.with_finish(
        {"title": event.title, "day": day, "after": after.title, "after_day": after_day},
        call("calendar.list", day=day, title=event.title),
        call("calendar.list", day=after_day, title=after.title),
        call("calendar.move", id=event.id, start=after.end),
    )


def _reschedule(scene: Scene) -> Draft:
    """The event moves to the first time of another day at which all attendees are free; they must be looked up."""
    event = _own_event(scene)
    day, people = event.start[:10], [attendee.person for attendee in event.attendees]
    minutes = minutes_between(event.start, event.end)
    new_day = next(candidate for candidate in scene.rng.sample(DAYS, 2) if candidate != day)
    start = earliest_common_start(scene, people, new_day, minutes=minutes)
    participants = ",".join((*people, scene.workspace.owner))
    return Draft.with_finish(
        {"title": event.title, "day": day, "new_day": new_day},
        call("calendar.list", day=day, title=event.title),
        call("calendar.read", id=event.id),
        call("calendar.free_busy", people=participants, day=new_day, minutes=minutes),
        call("calendar.move", id=event.id, start=start),
    )


def _cancel_series(scene: Scene) -> Draft:
    """Cancels the events of some days; lookalikes are one later event and one with a similar title."""
    title, days, text = scene.words.title(), scene.days(5), scene.words.decline_reason()
    events = [
        scene.add_event(title, random_start(scene, day), people=scene.people(2)) for day in (*days[1:3], days[4])
    ]
    scene.add_event(scene.words.similar(title), random_start(scene, days[1]), people=scene.people(1))
    cancellations = [call("calendar.cancel", id=event.id, message=text) for event in events[:2]]
    return Draft.with_finish(
        {"title": title, "first": days[0], "last": days[3], "message": f'"{text}"'},
        call("calendar.list", day=days[0], until=days[3], title=title),
        *(step for cancellation in cancellations for step in with_agreement(cancellation)),
    )


def _cancel(scene: Scene) -> Draft:
    """In half of the tasks somebody else organises the event; the refusal must name them."""
    event, text = _own_event(scene), scene.words.decline_reason()
    day, is_feasible = event.start[:10], scene.rng.random() < 0.5
    organizer = scene.person()
    if not is_feasible:
        attendees = (*event.attendees, replace(event.attendees[0], person=scene.workspace.owner))
        others = tuple(attendee for attendee in attendees if attendee.person != organizer)
        scene.add(replace(event, organizer=organizer, attendees=others))
    slots = {"title": event.title, "day": day, "message": f'"{text}"'}
    look = (call("calendar.list", day=day, title=event.title), call("calendar.read", id=event.id))
    if not is_feasible:
        return Draft.with_refusal(slots, organizer, *look)
    return Draft.with_finish(slots, *look, *with_agreement(call("calendar.cancel", id=event.id, message=text)))


def _invite(scene: Scene) -> Draft:
    event = _own_event(scene)
    invited = {attendee.person for attendee in event.attendees}
    people = [person for person in scene.people(5) if person not in invited][: scene.rng.randint(1, 2)]
    day = event.start[:10]
    return Draft.with_finish(
        {"title": event.title, "day": day, "people": " and ".join(people)},
        call("calendar.list", day=day, title=event.title),
        call("calendar.invite", id=event.id, people=",".join(people)),
    )


def _invitations(scene: Scene) -> list[Event]:
    """Three events of one title on one day, organised by different people, in order of time."""
    title, day = scene.words.title(), scene.day()
    hours = sorted(scene.rng.sample(range(9, 17), 3))
    return [
        scene.add_event(title, f"{day} {hour:02d}:00", organizer=person)
        for hour, person in zip(hours, scene.people(3), strict=True)
    ]


def _respond(scene: Scene) -> Draft:
    """The third event needs no reading if the first two have other organisers."""
    events = _invitations(scene)
    index = scene.rng.randrange(3)
    event, response = events[index], scene.rng.choice(list(_RESPONSES))
    day = event.start[:10]
    return Draft.with_finish(
        {"title": event.title, "day": day, "name": event.organizer, "respond": response},
        call("calendar.list", day=day, title=event.title),
        *(call("calendar.read", id=listed.id) for listed in events[: min(index + 1, 2)]),
        call("calendar.respond", id=event.id, response=_RESPONSES[response]),
    )


def _decline(scene: Scene) -> Draft:
    """The event at a stated time; the mail's recipient must be looked up."""
    event = scene.rng.choice(_invitations(scene))
    subject, text = scene.rng.choice(_SUBJECTS), scene.words.decline_reason()
    return Draft.with_finish(
        {"title": event.title, "start": event.start, "subject": f'"{subject}"', "phrase": f'"{text}"'},
        call("calendar.list", day=event.start[:10], title=event.title),
        call("calendar.read", id=event.id),
        call("calendar.respond", id=event.id, response="declined"),
        *with_agreement(call("outlook.send", to=event.organizer, subject=subject, body=text)),
    )


FAMILIES = (
    Family("event_move", 1, ("calendar",), _move),
    Family("event_move_after", 2, ("calendar",), _move_after),
    Family("event_cancel", 2, ("calendar",), _cancel),
    Family("event_invite", 1, ("calendar",), _invite),
    Family("event_respond", 2, ("calendar",), _respond),
    Family("event_decline", 3, ("calendar", "outlook"), _decline),
    Family("event_reschedule", 2, ("calendar",), _reschedule),
    Family("event_cancel_series", 3, ("calendar",), _cancel_series),
)
