"""Tasks that change what stands in the calendar: moving, cancelling, inviting, answering invitations."""

from dataclasses import replace

from upturn.environments.office.generation import (
    DAYS,
    FINISH,
    Draft,
    Family,
    Scene,
    agreed,
    call,
    earliest,
    near,
    refusal,
    regret,
    titles,
)
from upturn.environments.office.state import Event, Response, minutes_between

_RESPONSES: dict[str, Response] = {"accept": "accepted", "decline": "declined"}
_SUBJECTS = ("your invitation", "about your event", "my answer", "why i cannot come", "the invitation")


def _start(scene: Scene, day: str) -> str:
    return f"{day} {scene.rng.randint(9, 16):02d}:{scene.rng.choice(('00', '15', '30', '45'))}"


def _own(scene: Scene) -> Event:
    """Of the owner, with others that look like it: the same title on another day, a near one on this day."""
    title, (day, other_day) = titles(scene.rng, 1)[0], scene.rng.sample(DAYS, 2)
    minutes = scene.rng.choice((30, 45, 60, 90))
    event = scene.add_event(title, _start(scene, day), minutes=minutes, people=scene.people(2))
    scene.add_event(title, _start(scene, other_day), people=scene.people(2))
    scene.add_event(near(scene.rng, title), _start(scene, day), people=scene.people(1))
    return event


def _move(scene: Scene) -> Draft:
    event = _own(scene)
    day = event.start[:10]
    start = _start(scene, next(each for each in scene.rng.sample(DAYS, 2) if each != day))
    return Draft(
        {"title": event.title, "day": day, "start": start},
        (
            call("calendar.list", day=day, title=event.title),
            call("calendar.move", id=event.id, start=start),
            FINISH,
        ),
    )


def _move_after(scene: Scene) -> Draft:
    """To the end of an event of another day."""
    event = _own(scene)
    day = event.start[:10]
    after_day = next(each for each in scene.rng.sample(DAYS, 2) if each != day)
    title = next(each for each in titles(scene.rng, 2) if each != event.title)
    minutes = scene.rng.choice((30, 45, 60, 75, 90, 105))
    after = scene.add_event(title, _start(scene, after_day), minutes=minutes, people=scene.people(1))
    scene.add_event(near(scene.rng, title), _start(scene, after_day), minutes=60, people=scene.people(1))
    return Draft(
        {"title": event.title, "day": day, "after": after.title, "after_day": after_day},
        (
            call("calendar.list", day=day, title=event.title),
            call("calendar.list", day=after_day, title=after.title),
            call("calendar.move", id=event.id, start=after.end),
            FINISH,
        ),
    )


def _reschedule(scene: Scene) -> Draft:
    """To the first time of another day at which everybody invited is free; who that is has to be looked up."""
    event = _own(scene)
    day, people = event.start[:10], [each.person for each in event.attendees]
    minutes = minutes_between(event.start, event.end)
    new_day = next(each for each in scene.rng.sample(DAYS, 2) if each != day)
    start = earliest(scene, people, new_day, minutes=minutes)
    everybody = ",".join((*people, scene.workspace.owner))
    return Draft(
        {"title": event.title, "day": day, "new_day": new_day},
        (
            call("calendar.list", day=day, title=event.title),
            call("calendar.read", id=event.id),
            call("calendar.free_busy", people=everybody, day=new_day, minutes=minutes),
            call("calendar.move", id=event.id, start=start),
            FINISH,
        ),
    )


def _cancel_series(scene: Scene) -> Draft:
    """Those of some days; there is one more after them, and one of a near title among them."""
    title, days, text = titles(scene.rng, 1)[0], scene.days(5), regret(scene.rng)
    events = [scene.add_event(title, _start(scene, day), people=scene.people(2)) for day in (*days[1:3], days[4])]
    scene.add_event(near(scene.rng, title), _start(scene, days[1]), people=scene.people(1))
    cancellations = [call("calendar.cancel", id=each.id, message=text) for each in events[:2]]
    return Draft(
        {"title": title, "first": days[0], "last": days[3], "message": f'"{text}"'},
        (
            call("calendar.list", day=days[0], until=days[3], title=title),
            *(step for each in cancellations for step in agreed(each)),
            FINISH,
        ),
    )


def _cancel(scene: Scene) -> Draft:
    """Half of the time it is somebody else's, who has to be named then."""
    event, text = _own(scene), regret(scene.rng)
    day, is_feasible = event.start[:10], scene.rng.random() < 0.5
    organizer = scene.people(1)[0]
    if not is_feasible:
        attendees = (*event.attendees, replace(event.attendees[0], person=scene.workspace.owner))
        others = tuple(each for each in attendees if each.person != organizer)
        scene.add(replace(event, organizer=organizer, attendees=others))
    slots = {"title": event.title, "day": day, "message": f'"{text}"'}
    look = (call("calendar.list", day=day, title=event.title), call("calendar.read", id=event.id))
    if not is_feasible:
        return Draft(slots, (*look, refusal(organizer)), answer=organizer, is_feasible=False)
    return Draft(slots, (*look, *agreed(call("calendar.cancel", id=event.id, message=text)), FINISH))


def _invite(scene: Scene) -> Draft:
    event = _own(scene)
    there = {each.person for each in event.attendees}
    people = [each for each in scene.people(5) if each not in there][: scene.rng.randint(1, 2)]
    day = event.start[:10]
    return Draft(
        {"title": event.title, "day": day, "people": " and ".join(people)},
        (
            call("calendar.list", day=day, title=event.title),
            call("calendar.invite", id=event.id, people=",".join(people)),
            FINISH,
        ),
    )


def _invitations(scene: Scene) -> list[Event]:
    """Three of one title on one day, by different people, in order of time."""
    title, day = titles(scene.rng, 1)[0], scene.day()
    hours = sorted(scene.rng.sample(range(9, 17), 3))
    return [
        scene.add_event(title, f"{day} {hour:02d}:00", organizer=each)
        for hour, each in zip(hours, scene.people(3), strict=True)
    ]


def _respond(scene: Scene) -> Draft:
    """After two that are others' the third one is known unread."""
    events = _invitations(scene)
    place = scene.rng.randrange(3)
    event, said = events[place], scene.rng.choice(list(_RESPONSES))
    day = event.start[:10]
    return Draft(
        {"title": event.title, "day": day, "name": event.organizer, "respond": said},
        (
            call("calendar.list", day=day, title=event.title),
            *(call("calendar.read", id=each.id) for each in events[: min(place + 1, 2)]),
            call("calendar.respond", id=event.id, response=_RESPONSES[said]),
            FINISH,
        ),
    )


def _decline(scene: Scene) -> Draft:
    """The one at a given time; to whom the mail goes has to be looked up."""
    event = scene.rng.choice(_invitations(scene))
    subject, text = scene.rng.choice(_SUBJECTS), regret(scene.rng)
    return Draft(
        {"title": event.title, "start": event.start, "subject": f'"{subject}"', "phrase": f'"{text}"'},
        (
            call("calendar.list", day=event.start[:10], title=event.title),
            call("calendar.read", id=event.id),
            call("calendar.respond", id=event.id, response="declined"),
            *agreed(call("outlook.send", to=event.organizer, subject=subject, body=text)),
            FINISH,
        ),
    )


FAMILIES = (
    Family(
        "event_move",
        1,
        ("calendar",),
        _move,
        templates=(
            "move the {title} of {day} to {start}",
            "the {title} on {day} should begin on {start} instead",
            "put the {title} that is on {day} to {start}; it stays as long as it is",
            "shift the {title} of {day} so that it starts at {start}",
            "let the {title} on {day} take place from {start} on, as long as before",
            "{start} is better for the {title} i have on {day}: move it there",
            "my {title} on {day} has to be moved to {start}",
            "change the start of the {title} of {day} to {start}, with its length kept",
            "find the {title} on {day} in my calendar and move it to {start}",
            "instead of {day}, have the {title} on {start}",
        ),
        heldout=(
            "reschedule the {title} of {day} to {start}",
            "the new time of the {title} on {day} is {start}; move it",
            "take the {title} from {day} over to {start}",
            "i cannot do the {title} on {day}; move it to {start}",
        ),
    ),
    Family(
        "event_move_after",
        2,
        ("calendar",),
        _move_after,
        templates=(
            "move the {title} of {day} so that it starts when the {after} on {after_day} ends",
            "the {title} on {day} should begin right at the end of the {after} on {after_day}; move it",
            "put the {title} of {day} directly after the {after} of {after_day}",
            "let the {title} on {day} follow the {after} on {after_day} without a break",
            "shift my {title} from {day} to the moment the {after} on {after_day} is over",
            "see when the {after} on {after_day} ends and move the {title} of {day} to start then",
            "as soon as the {after} of {after_day} is over, the {title} that is now on {day} should start; move it",
            "have the {title} of {day} begin at the time the {after} on {after_day} ends",
            "move the {title}, now on {day}, to {after_day}, straight after the {after}",
            "i want the {title} of {day} moved to {after_day}, starting when the {after} ends",
        ),
        heldout=(
            "reschedule the {title} on {day} to begin exactly at the end of the {after} of {after_day}",
            "the end of the {after} on {after_day} is the new start of the {title} of {day}",
            "on {after_day}, once the {after} ends, there should be the {title} which is on {day} now; move it",
            "take the {title} of {day} and let it start where the {after} on {after_day} stops",
        ),
    ),
    Family(
        "event_cancel",
        2,
        ("calendar",),
        _cancel,
        templates=(
            "cancel the {title} on {day} with the message {message}; if it is not mine to cancel, refuse with "
            "just its organizer's id",
            "call off the {title} of {day}, saying {message}; should somebody else organise it, leave it and "
            "refuse, giving only that id",
            "if i organise the {title} on {day}, cancel it with {message}; if not, refuse with nothing but the "
            "organizer's id",
            "the {title} on {day} is off: cancel it and write {message}; where it is another person's event, "
            "refuse with that person's id alone",
            "cancel my {title} of {day} and tell all {message}; if it turns out not to be mine, refuse and give "
            "just the id of whose it is",
            "check who organises the {title} on {day}; if it is me, cancel it with the message {message}, else "
            "refuse with the organizer's id only",
            "with the message {message}, cancel the {title} on {day}, unless somebody else organises it: then "
            "refuse with only their id",
            "i do not want the {title} on {day} any more; cancel it, message {message}; if another one organises "
            "it, refuse by naming that id only",
            "cancel the {title} of {day}, provided it is my event, with {message} as the message; otherwise "
            "refuse and say just the organizer's id",
            "have the {title} on {day} cancelled with the words {message}; if that is up to another person, "
            "refuse with their id and no more",
        ),
        heldout=(
            "the {title} on {day} should be cancelled, message {message}; not if another person organises it, "
            "then refuse with the id of that person only",
            "send {message} as you cancel the {title} of {day}; refuse, with only the organizer's id, if it is "
            "not my event",
            "if the {title} of {day} is mine, it is to be cancelled with {message}; if it is not, refuse and name "
            "the organizer by id, nothing else",
            "drop the {title} on {day} with the message {message}, or refuse with just the id of who organises it "
            "if i do not",
        ),
    ),
    Family(
        "event_invite",
        1,
        ("calendar",),
        _invite,
        templates=(
            "invite {people} to the {title} on {day}",
            "add {people} to my {title} of {day}",
            "the {title} on {day} should have {people} in it too; invite",
            "i want {people} at the {title} on {day}, so send an invitation",
            "also invite {people} to the {title} that i have on {day}",
            "ask {people} to the {title} of {day} by inviting through the calendar",
            "put {people} on the list of those invited to the {title} on {day}",
            "for the {title} on {day}, invite {people} as well",
            "find the {title} of {day} in my calendar and invite {people}",
            "let {people} come to the {title} on {day}: add them to the event",
        ),
        heldout=(
            "extend the invitation to the {title} on {day} to {people}",
            "who is still missing at the {title} of {day}: {people}; invite",
            "make {people} part of the {title} that is on {day}",
            "send an invitation to the {title} on {day} to {people}",
        ),
    ),
    Family(
        "event_respond",
        2,
        ("calendar",),
        _respond,
        templates=(
            "{respond} the invitation to the {title} on {day} that is from {name}",
            "{respond} {name}'s {title} on {day}",
            "i got several invitations to a {title} on {day}; {respond} the one {name} organises",
            "for the {title} by {name} on {day}, {respond} the invitation",
            "on {day}, {name} invites me to a {title}: {respond} that",
            "{respond} the {title} of {day}, i mean the one {name} set up",
            "answer {name}'s invitation to the {title} on {day}: {respond} it",
            "look for the {title} on {day} that {name} organises and {respond} it",
            "{name} asks me to a {title} on {day}; {respond} in the calendar",
            "there is a {title} on {day} that {name} set up; {respond} the invitation to it",
        ),
        heldout=(
            "of the {title} events on {day}, {respond} that of {name}",
            "the {title} on {day} organised by {name}: {respond} it for me",
            "my response to {name} for the {title} on {day} is to {respond}; enter it",
            "see which {title} on {day} is {name}'s and {respond} that invitation",
        ),
    ),
    Family(
        "event_decline",
        3,
        ("calendar", "outlook"),
        _decline,
        templates=(
            "decline the {title} on {start} and mail its organizer why: subject {subject}, text {phrase}",
            "i cannot come to the {title} at {start}; decline it and send the organizer a mail {subject} saying "
            "{phrase}",
            "say no to the invitation for the {title} on {start} and send whoever organises it a mail with "
            "subject {subject} and text {phrase}",
            "decline the invitation to the {title} that starts {start}; then mail {phrase} to the organizer, "
            "subject {subject}",
            "the {title} on {start}: decline it, and let the organizer know by a mail, {subject} as subject, "
            "{phrase} as text",
            "turn down the {title} at {start} in the calendar, and tell its organizer {phrase} in a mail with the "
            "subject {subject}",
            "write the organizer of the {title} on {start} a new mail, subject {subject}, text {phrase}, and "
            "decline the event",
            "my answer to the {title} on {start} is declined; its organizer also gets a mail, subject {subject}, "
            "text {phrase}",
            "find the {title} on {start}, decline it and mail the one who organises it: subject {subject}, text "
            "{phrase}",
            "i will miss the {title} on {start}. decline, and mail the organizer {phrase} under the subject "
            "{subject}",
        ),
        heldout=(
            "enter declined for the {title} on {start} and write to its organizer, subject {subject}, just "
            "{phrase}",
            "no {title} for me on {start}: decline and send a mail called {subject} with {phrase} to who "
            "organises it",
            "mail whoever organises the {title} on {start} that {phrase}, with {subject} as the subject, after "
            "declining it",
            "decline the {title} of {start}; explain it to the organizer by mail, subject {subject}, text {phrase}",
        ),
    ),
    Family(
        "event_reschedule",
        2,
        ("calendar",),
        _reschedule,
        templates=(
            "move the {title} of {day} to {new_day}, to the earliest time from 08:00 on when all who are invited "
            "and i are free for as long as it takes",
            "the {title} on {day} has to be on {new_day} instead; take the first time from 08:00 at which "
            "everybody in it and i can, with its length kept",
            "put the {title} that is on {day} to {new_day}, as early after 08:00 as those invited and i "
            "are all free for its whole length",
            "see who is invited to the {title} on {day} and move it to the first time on {new_day}, from 08:00, "
            "that is free for all of them and for me",
            "move my {title} of {day} to {new_day} at the earliest common free time of all its people "
            "and me, from 08:00 on and long enough",
            "on {new_day} rather than {day} should be the {title}: first time from 08:00 when its people and i "
            "have nothing else for so long; move it",
            "find the earliest time on {new_day}, from 08:00, when everybody of the {title} on {day} and i "
            "are free for its length, and move it there",
            "shift the {title} from {day} to {new_day}; nobody invited, nor i, may have anything else "
            "then, and it should be as early from 08:00 as can be",
            "everyone invited to the {title} of {day} and i need another time for it: the first that suits "
            "all on {new_day} from 08:00 on; move it there",
            "let the {title} on {day} be on {new_day}, as soon from 08:00 as all its people and i are free "
            "for as long as it lasts",
        ),
        heldout=(
            "reschedule the {title} of {day} for {new_day}: earliest time from 08:00 at which those invited and "
            "i are free throughout",
            "take the {title} on {day} to the first slot of its length on {new_day}, from 08:00, that all invited "
            "and i have free",
            "{new_day} is the new day of the {title} that is on {day}; move it to the earliest time from 08:00 "
            "free for its people and me",
            "my {title} on {day} moves to {new_day}; look from 08:00 on for the first time when i and all "
            "who are invited are free long enough",
        ),
    ),
    Family(
        "event_cancel_series",
        3,
        ("calendar",),
        _cancel_series,
        templates=(
            "cancel every {title} from {first} to {last} with the message {message}",
            "call off all {title} events between {first} and {last}, saying {message} each time",
            "each {title} in my calendar from {first} until {last} is to be cancelled, message {message}",
            "find all {title} events of {first} to {last} and cancel them, one after the other, with {message}",
            "from {first} to {last} i want no {title}: cancel all of them with the message {message}",
            "cancel whatever {title} there is between {first} and {last} and write {message}",
            "with the message {message}, cancel each {title} of the days {first} to {last}",
            "all my {title} events from {first} to {last} are off; cancel them and tell people {message}",
            "go through {first} to {last} and cancel every {title}, the message being {message}",
            "drop each {title} that i have from {first} to {last}; the message is {message}",
        ),
        heldout=(
            "no {title} shall be left from {first} to {last}: cancel each, message {message}",
            "in the days {first} to {last}, every {title} should be cancelled with the words {message}",
            "send {message} as you cancel all {title} events from {first} to {last}",
            "between {first} and {last}, cancel any {title} you find, with {message} as the message",
        ),
    ),
)
