"""Tasks with questions about the calendar, and tasks that create events."""

from dataclasses import replace

from upturn.environments.office.generation import (
    DAYS,
    Draft,
    Family,
    Scene,
    call,
    earliest_common_start,
    fill_day,
    free_start,
    random_start,
)
from upturn.environments.office.state import add_minutes
from upturn.records import Action

_MINUTES = (30, 45, 60, 90)


def _room(scene: Scene) -> Draft:
    title, (day, other_day) = scene.words.title(), scene.rng.sample(DAYS, 2)
    number = scene.words.digits()
    event_id = ""
    for name, when, room in (
        (title, day, number),
        (title, other_day, scene.words.digits()),
        (scene.words.similar(title), day, scene.words.digits()),
    ):
        event = scene.add_event(name, random_start(scene, when), people=scene.people(2), place=f"room {room}")
        notes = (
            "bring your notes",
            f"call {scene.words.digits()} if you are late",
            f"not in room {scene.words.digits()} any more",
        )
        scene.add(replace(event, body=scene.rng.choice(notes)))
        event_id = event_id or event.id
    return Draft.with_answer(
        {"title": title, "day": day},
        number,
        call("calendar.list", day=day, title=title),
        call("calendar.read", id=event_id),
    )


def _partner(scene: Scene) -> Draft:
    """Other people organise the events of the same title."""
    title, (day, other_day) = scene.words.title(), scene.rng.sample(DAYS, 2)
    people = scene.people(3)
    events = [
        scene.add_event(
            title, random_start(scene, when), organizer=organizer, people=scene.people(scene.rng.randint(0, 2))
        )
        for organizer, when in zip(people, (day, other_day, other_day), strict=True)
    ]
    return Draft.with_answer(
        {"title": title, "day": day},
        people[0],
        call("calendar.list", day=day, title=title),
        call("calendar.read", id=events[0].id),
    )


def _next_with(scene: Scene) -> Draft:
    """One of four events of the same title; searches do not show the attendees."""
    title, days = scene.words.title(), scene.days(4)
    name, *partners = scene.people(5)
    index = scene.rng.randrange(4)
    partners[index] = name
    if index < 3:
        partners[scene.rng.randint(index + 1, 3)] = name
    rooms = [scene.words.digits() for _ in partners]
    events = [
        scene.add_event(title, random_start(scene, day), people=[partner], place=f"room {room}")
        for day, partner, room in zip(days, partners, rooms, strict=True)
    ]
    return Draft.with_answer(
        {"title": title, "name": name, "first": DAYS[0], "last": DAYS[-1]},
        rooms[index],
        call("calendar.list", day=DAYS[0], until=DAYS[-1], title=title),
        *(call("calendar.read", id=event.id) for event in events[: index + 1]),
    )


def _book(scene: Scene) -> Draft:
    people, day, minutes = scene.people(2), scene.day(), scene.rng.choice(_MINUTES)
    title = scene.words.title()
    start = earliest_common_start(scene, people, day, minutes=minutes)
    return Draft.with_finish(
        {**_event_slots(people, title, minutes=minutes), "day": day},
        _free_busy(scene, people, day, minutes=minutes),
        _create(title, start, people, minutes=minutes),
    )


def _book_later(scene: Scene) -> Draft:
    """Up to two full days come before the day with free time."""
    people, days, minutes = scene.people(2), scene.days(3), scene.rng.choice(_MINUTES)
    title, full = scene.words.title(), scene.rng.choice((0, 1, 1, 2))
    for day in days[:full]:
        fill_day(scene, (scene.workspace.owner, *people), f"{day} 18:00")
    start = earliest_common_start(scene, people, days[full], minutes=minutes)
    return Draft.with_finish(
        {**_event_slots(people, title, minutes=minutes), "days": f"{days[0]}, {days[1]} and {days[2]}"},
        *(_free_busy(scene, people, day, minutes=minutes) for day in days[: full + 1]),
        _create(title, start, people, minutes=minutes),
    )


def _event_slots(people: list[str], title: str, *, minutes: int) -> dict[str, str]:
    return {"first": people[0], "second": people[1], "minutes": str(minutes), "title": f'"{title}"'}


def _free_busy(scene: Scene, people: list[str], day: str, *, minutes: int) -> Action:
    participants = ",".join((*people, scene.workspace.owner))
    return call("calendar.free_busy", people=participants, day=day, minutes=minutes)


def _create(title: str, start: str, people: list[str], *, minutes: int) -> Action:
    end = add_minutes(start, minutes=minutes)
    return call("calendar.create", title=title, start=start, end=end, people=",".join(people))


def _create_with(scene: Scene) -> Draft:
    """The attendee is the organiser of another event; an event of the same title has another organiser."""
    (known, title), (day, other_day, new_day) = scene.words.titles(2), scene.rng.sample(DAYS, 3)
    organizer, other = scene.people(2)
    event = scene.add_event(known, random_start(scene, day), organizer=organizer, people=scene.people(1))
    scene.add_event(known, random_start(scene, other_day), organizer=other)
    start = free_start(scene, new_day)
    end, place = add_minutes(start, minutes=60), f"room {scene.words.digits()}"
    return Draft.with_finish(
        {"known": known, "day": day, "title": f'"{title}"', "start": start, "end": end[11:], "place": place},
        call("calendar.list", day=day, title=known),
        call("calendar.read", id=event.id),
        call("calendar.create", title=title, start=start, end=end, people=organizer, place=place),
    )


FAMILIES = (
    Family("event_room", 1, ("calendar",), _room),
    Family("event_organizer", 1, ("calendar",), _partner),
    Family("event_next_with", 2, ("calendar",), _next_with),
    Family("event_book", 1, ("calendar",), _book),
    Family("event_book_later", 2, ("calendar",), _book_later),
    Family("event_create_with", 2, ("calendar",), _create_with),
)
