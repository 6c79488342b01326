"""Tasks that ask the calendar, and tasks that enter something new into it."""

from dataclasses import replace

from upturn.environments.office.generation import (
    DAYS,
    FINISH,
    Draft,
    Family,
    Scene,
    answer,
    block,
    call,
    digits,
    earliest,
    near,
    titles,
)
from upturn.environments.office.state import later
from upturn.records import Action

_MINUTES = (30, 45, 60, 90)


def _start(scene: Scene, day: str) -> str:
    return f"{day} {scene.rng.randint(9, 16):02d}:{scene.rng.choice(('00', '15', '30', '45'))}"


def _room(scene: Scene) -> Draft:
    title, (day, other_day) = titles(scene.rng, 1)[0], scene.rng.sample(DAYS, 2)
    number = digits(scene.rng)
    found = ""
    for name, when, room in (
        (title, day, number),
        (title, other_day, digits(scene.rng)),
        (near(scene.rng, title), day, digits(scene.rng)),
    ):
        event = scene.add_event(name, _start(scene, when), people=scene.people(2), place=f"room {room}")
        notes = (
            "bring your notes",
            f"call {digits(scene.rng)} if you are late",
            f"not in room {digits(scene.rng)} any more",
        )
        scene.add(replace(event, body=scene.rng.choice(notes)))
        found = found or event.id
    return Draft(
        {"title": title, "day": day},
        (call("calendar.list", day=day, title=title), call("calendar.read", id=found), answer(number)),
        answer=number,
    )


def _partner(scene: Scene) -> Draft:
    """Somebody else organises the like-named events."""
    title, (day, other_day) = titles(scene.rng, 1)[0], scene.rng.sample(DAYS, 2)
    people = scene.people(3)
    found = [
        scene.add_event(title, _start(scene, when), organizer=each, people=scene.people(scene.rng.randint(0, 2)))
        for each, when in zip(people, (day, other_day, other_day), strict=True)
    ]
    return Draft(
        {"title": title, "day": day},
        (call("calendar.list", day=day, title=title), call("calendar.read", id=found[0].id), answer(people[0])),
        answer=people[0],
    )


def _next_with(scene: Scene) -> Draft:
    """One of several like-named events; searches do not show with whom they are."""
    title, days = titles(scene.rng, 1)[0], scene.days(6)
    name, *others = scene.people(5)
    place = scene.rng.randint(1, 3)
    partners = (*others[:place], name, others[3], name)
    rooms = [digits(scene.rng) for _ in partners]
    events = [
        scene.add_event(title, _start(scene, day), people=[partner], place=f"room {room}")
        for day, partner, room in zip(days, partners, rooms, strict=False)
    ]
    return Draft(
        {"title": title, "name": name, "first": DAYS[0], "last": DAYS[-1]},
        (
            call("calendar.list", day=DAYS[0], until=DAYS[-1], title=title),
            *(call("calendar.read", id=each.id) for each in events[: place + 1]),
            answer(rooms[place]),
        ),
        answer=rooms[place],
    )


def _book(scene: Scene) -> Draft:
    people, day, minutes = scene.people(2), scene.day(), scene.rng.choice(_MINUTES)
    title = titles(scene.rng, 1)[0]
    start = earliest(scene, people, day, minutes=minutes)
    return Draft(
        {**_booking_slots(people, title, minutes=minutes), "day": day},
        (
            _asking(scene, people, day, minutes=minutes),
            _booking(title, start, people, minutes=minutes),
            FINISH,
        ),
    )


def _book_later(scene: Scene) -> Draft:
    """Before the day that has time, there may be up to two that have none."""
    people, days, minutes = scene.people(2), scene.days(3), scene.rng.choice(_MINUTES)
    title, full = titles(scene.rng, 1)[0], scene.rng.choice((0, 1, 1, 2))
    for day in days[:full]:
        block(scene, (scene.workspace.owner, *people), f"{day} 18:00")
    start = earliest(scene, people, days[full], minutes=minutes)
    return Draft(
        {**_booking_slots(people, title, minutes=minutes), "days": f"{days[0]}, {days[1]} and {days[2]}"},
        (
            *(_asking(scene, people, day, minutes=minutes) for day in days[: full + 1]),
            _booking(title, start, people, minutes=minutes),
            FINISH,
        ),
    )


def _booking_slots(people: list[str], title: str, *, minutes: int) -> dict[str, str]:
    return {
        "first": people[0],
        "second": people[1],
        "minutes": str(minutes),
        "title": f'"{title}"',
    }


def _asking(scene: Scene, people: list[str], day: str, *, minutes: int) -> Action:
    everybody = ",".join((*people, scene.workspace.owner))
    return call("calendar.free_busy", people=everybody, day=day, minutes=minutes)


def _booking(title: str, start: str, people: list[str], *, minutes: int) -> Action:
    end = later(start, minutes=minutes)
    return call("calendar.create", title=title, start=start, end=end, people=",".join(people))


def _create_with(scene: Scene) -> Draft:
    """With whoever organises something else; a like-named event of that week has another organiser."""
    (known, title), (day, other_day, new_day) = titles(scene.rng, 2), scene.rng.sample(DAYS, 3)
    organizer, other = scene.people(2)
    event = scene.add_event(known, _start(scene, day), organizer=organizer, people=scene.people(1))
    scene.add_event(known, _start(scene, other_day), organizer=other)
    start = scene.free_start(new_day)
    end, place = later(start, minutes=60), f"room {digits(scene.rng)}"
    return Draft(
        {
            "known": known,
            "day": day,
            "title": f'"{title}"',
            "start": start,
            "end": end[11:],
            "place": place,
        },
        (
            call("calendar.list", day=day, title=known),
            call("calendar.read", id=event.id),
            call("calendar.create", title=title, start=start, end=end, people=organizer, place=place),
            FINISH,
        ),
    )


FAMILIES = (
    Family(
        "event_room",
        1,
        ("calendar",),
        _room,
        templates=(
            "what room is the {title} on {day} in? the number is enough",
            "which room number does the {title} of {day} have?",
            "tell me the number of the room for the {title} on {day}",
            "where is the {title} on {day}? just the room number",
            "on {day} there is a {title} in my calendar: what is its room number?",
            "look up the {title} on {day} and give me the number of its room",
            "i need the room number for the {title} that is on {day}",
            "in which room do i have the {title} on {day}? number only",
            "find the {title} of {day} in my calendar and tell me which room, by number",
            "the {title} on {day} is in a room with what number?",
        ),
        heldout=(
            "give me just the number of the room where the {title} takes place on {day}",
            "room number for the {title}, {day}?",
            "check my calendar on {day}: which room number is the {title} in?",
            "to what room number must i go for the {title} on {day}?",
        ),
    ),
    Family(
        "event_organizer",
        1,
        ("calendar",),
        _partner,
        templates=(
            "who organises the {title} on {day}? give the id, such as ann.lee",
            "who invited me to the {title} of {day}? just the id",
            "tell me the id of the one who organises the {title} on {day}",
            "whose event is the {title} on {day}? answer with the id only",
            "look up who set up the {title} on {day}; the id is enough",
            "i want the id of the organizer of the {title} on {day}",
            "the {title} on {day}: who is its organizer? id only, like ann.lee",
            "find out who runs the {title} that is in my calendar on {day}, by id",
            "on {day} there is a {title}; who made it? only the id",
            "check the {title} of {day} and name its organizer by id",
        ),
        heldout=(
            "name whoever organises the {title} on {day}, as an id like ann.lee",
            "by whom is the {title} on {day}? the id will do",
            "give me the organizer's id for the {title} in my calendar on {day}",
            "from whom is the invitation to the {title} on {day}? id only",
        ),
    ),
    Family(
        "event_next_with",
        2,
        ("calendar",),
        _next_with,
        templates=(
            "which room number has the first {title} with {name} between {first} and {last}?",
            "find the next {title} with {name}, from {first} to {last}, and tell me the number of its room",
            "from {first} to {last} i have several {title} events: what room number does the first one with "
            "{name} have?",
            "in what room is the earliest {title} that {name} is invited to, {first} to {last}? just the number",
            "tell me the room number for the next time i meet {name} in a {title}; look from {first} to {last}",
            "look through the {title} events from {first} until {last} for the first with {name}: which room "
            "number?",
            "i need the room number of the first {title} with {name} in the days {first} to {last}",
            "of all {title} events in {first} to {last}, where is the soonest with {name}? the room number only",
            "where do {name} and i have the next {title}? search {first} to {last} and give me the room number",
            "give me the room number of the first {title} with {name} in my calendar from {first} to {last}",
        ),
        heldout=(
            "between {first} and {last}, what is the room number of the earliest {title} with {name}?",
            "check {first} to {last}: which room number has the first {title} that {name} comes to?",
            "the soonest {title} that has {name} in it, {first} to {last}: room number?",
            "my calendar has {title} several times from {first} to {last}; what room number is the first with "
            "{name} in?",
        ),
    ),
    Family(
        "event_book",
        1,
        ("calendar",),
        _book,
        templates=(
            "find the earliest {minutes} minutes between 08:00 and 18:00 on {day} when {first}, {second} and i "
            "are all free, and enter {title} there with the two of them",
            "on {day}, book {title} for {minutes} minutes with {first} and {second} at the first time from 08:00 "
            "to 18:00 that suits them and me",
            "enter {title} into my calendar, {minutes} minutes on {day}, as early after 08:00 as {first}, "
            "{second} and i can; invite both",
            "{first}, {second} and i need {minutes} minutes on {day}: take the earliest time all are free "
            "from 08:00 on, call it {title} and invite them",
            "make an event {title} with {first} and {second} on {day}: {minutes} minutes, beginning at the first "
            "moment from 08:00 when they and i are free for so long",
            "set up {title} of {minutes} minutes with {first} and {second} on {day}, at the earliest "
            "common free time from 08:00 on",
            "look when {first}, {second} and i are free for {minutes} minutes on {day} and book "
            "the earliest time, from 08:00 on, as {title} with both",
            "the first gap of {minutes} minutes after 08:00 on {day} in the calendars of {first}, {second} and "
            "me should become {title}; invite the others",
            "put {title} on {day} for {minutes} minutes, with {first} and {second}, as soon from 08:00 on as "
            "nobody of us three has anything else",
            "invite {first} and {second} to {title} on {day}; it takes {minutes} minutes and starts at the "
            "earliest time from 08:00 at which both and i are free throughout",
        ),
        heldout=(
            "{title} should be on {day} with {first} and {second}, {minutes} minutes long, at the earliest moment "
            "from 08:00 that is free for them and for me",
            "check on {day} from 08:00 when {first}, {second} and i first have {minutes} minutes in "
            "common; enter {title} there and invite both",
            "for {title} i need {first} and {second} during {minutes} minutes on {day}: book the first "
            "time from 08:00 that all three have",
            "reserve {minutes} minutes for {title} on {day}, first common free time from 08:00 of {first}, "
            "{second} and me, and invite those two",
        ),
    ),
    Family(
        "event_book_later",
        2,
        ("calendar",),
        _book_later,
        templates=(
            "of the days {days}, find the first on which {first}, {second} and i are all free for "
            "{minutes} minutes between 08:00 and 18:00, and enter {title} with both at the earliest such time",
            "book {title}, {minutes} minutes, with {first} and {second}: possible days are {days}, the earliest "
            "time from 08:00 to 18:00 that suits them and me counts",
            "i need {minutes} minutes with {first} and {second} on one of {days}, within 08:00 to "
            "18:00, as early as all are free; call it {title}",
            "enter {title} with {first} and {second} for {minutes} minutes as soon as they and i are free "
            "together; look at {days}, 08:00 to 18:00",
            "when can {first}, {second} and i meet for {minutes} minutes? check {days} in this order, "
            "08:00 to 18:00, and book the first chance as {title}, inviting both",
            "on {days} the calendars are rather full; find the earliest {minutes} minutes from 08:00 to 18:00 for "
            "{first}, {second} and me and enter {title} with the two",
            "make an event {title} of {minutes} minutes with {first} and {second} at the earliest time that all "
            "three of us have, within {days}, from 08:00 to 18:00",
            "invite {first} and {second} to {title}: {minutes} minutes, as early as they and i are free "
            "between 08:00 and 18:00 on {days}",
            "try {days} one after the other: as soon as {first}, {second} and i have {minutes} free "
            "minutes between 08:00 and 18:00, enter {title} there with them",
            "set up {title} with {first} and {second} for {minutes} minutes; go through {days} and take the first "
            "common free time of us three within 08:00 to 18:00",
        ),
        heldout=(
            "{title} with {first} and {second} takes {minutes} minutes: put it at the first time on {days}, from "
            "08:00 to 18:00, at which they and i are free",
            "search {days} for the earliest {minutes} minutes, 08:00 to 18:00, free for me, {first} and "
            "{second}, and book {title} with both there",
            "the soonest common {minutes} minutes of {first}, {second} and me on {days} between 08:00 and "
            "18:00 are for {title}; enter it and invite them",
            "as early as possible on {days}, within 08:00 to 18:00, i want {title} of {minutes} minutes "
            "with {first} and {second}, all three free",
        ),
    ),
    Family(
        "event_create_with",
        2,
        ("calendar",),
        _create_with,
        templates=(
            "enter {title} from {start} to {end} in {place}, with whoever organises the {known} on {day}",
            "make an event {title}, {start} to {end}, place {place}, and invite the organizer of the {known} on "
            "{day}",
            "see who organises the {known} of {day} and invite them alone to {title}, {start} to {end}, in {place}",
            "the one who runs the {known} on {day} should come to {title} in {place}, {start} to {end}; enter it",
            "put {title} into my calendar for {start} to {end}, in {place}, inviting only the organizer of the "
            "{known} on {day}",
            "i want to meet the organizer of the {known} on {day}: {title}, {start} to {end}, in {place}",
            "new event {title} in {place} from {start} to {end}, with the organizer of my {known} on {day} and "
            "nobody else",
            "find out whose event the {known} on {day} is and set up {title} with that person, {start} to {end}, "
            "place {place}",
            "invite whoever invited me to the {known} on {day} to a new event: {title}, {start} to {end}, {place}",
            "book {place} as the place of {title}, {start} to {end}, an event with the organizer of the {known} "
            "on {day}",
        ),
        heldout=(
            "an event called {title} is needed in {place}, {start} to {end}, for me and the organizer of the "
            "{known} on {day}",
            "look up the organizer of the {known} on {day}; then create {title} with them in {place}, {start} to "
            "{end}",
            "from {start} to {end}, {title} in {place} with the person behind the {known} of {day}; make that "
            "event",
            "whoever set up the {known} on {day} gets an invitation from me: {title}, {place}, {start} to {end}",
        ),
    ),
)
