"""Tasks over the calendar and another app: meetings that are asked for, offered or called off elsewhere."""

from upturn.environments.office.apps import CLOSES, OPENS, free_spans
from upturn.environments.office.families.cross_app import a_channel, posted
from upturn.environments.office.generation import FINISH, TOPICS, Draft, Family, Scene, agreed, call, joined
from upturn.environments.office.state import later

MEETINGS = ("price round", "kick-off", "site visit", "handover", "quick sync", "sketch talk", "wrap-up")
_LENGTHS = {
    30: ("half an hour", "30 minutes"),
    60: ("an hour", "60 minutes"),
    90: ("90 minutes", "an hour and a half"),
}


def _chat_meeting(scene: Scene) -> Draft:
    rng, owner = scene.rng, scene.workspace.owner
    other, day, title = scene.people(1)[0], scene.day(), rng.choice(MEETINGS)
    minutes = rng.choice(list(_LENGTHS))
    scene.add_event("breakfast", f"{day} 08:00", minutes=rng.choice((30, 60, 90, 120)))
    scene.add_event("call", f"{day} {rng.choice(('09:30', '10:00', '10:30'))}", organizer=other, minutes=60)
    scene.free_start(day, [other], minutes=120)
    busy = [each for each in scene.workspace.events.values() if each.concerns(owner) or each.concerns(other)]
    start = free_spans(busy, f"{day} {OPENS}", f"{day} {CLOSES}", minutes=minutes)[0][0]
    length = rng.choice(_LENGTHS[minutes])
    chat = scene.add_chat(other)
    texts = (
        f"can we meet? {length} should do",
        f"i need {length} of your time",
        f"shall we sit together for {length}?",
    )
    scene.add_post(chat, other, rng.choice(texts))
    return Draft(
        {"name": other, "day": day, "title": f'"{title}"'},
        (
            call("teams.search_chat", sender=other),
            call("calendar.free_busy", people=[other, owner], day=day, minutes=minutes),
            call("calendar.create", title=title, start=start, end=later(start, minutes=minutes), people=[other]),
            *agreed(call("teams.send_message", chat=chat.id, text=start[11:])),
            FINISH,
        ),
    )


def _cancelled_and_told(scene: Scene) -> Draft:
    rng, channel, title = scene.rng, a_channel(scene), scene.rng.choice(MEETINGS)
    days = sorted({scene.day() for _ in range(6)})[:2]
    day = rng.choice(days)
    people = rng.sample([each for each in channel.members if each != scene.workspace.owner], 3)
    events = {each: scene.add_event(title, scene.free_start(each, people), people=people) for each in days}
    start = events[day].start[11:]
    return Draft(
        {"team": channel.team, "title": f'"{title}"', "day": day, "text": f'"{title} cancelled, was at"'},
        (
            call("calendar.list", day=day, title=title),
            *agreed(call("calendar.cancel", id=events[day].id)),
            call("teams.list_channels", name=channel.team),
            *posted(channel, f"{title} cancelled, was at {start}"),
            FINISH,
        ),
    )


def _first_free_offer(scene: Scene) -> Draft:
    rng, day, title = scene.rng, scene.day(), scene.rng.choice(MEETINGS)
    sender, topic = scene.people(1)[0], rng.choice(TOPICS)
    start = scene.free_start(day)
    others = rng.sample([f"{day} {hour:02d}:00" for hour in range(9, 17) if f"{hour:02d}" != start[11:13]], 2)
    taken = others[: rng.randint(1, 2)]
    for each in taken:
        scene.add_event("busy", later(each, minutes=rng.choice((0, 15))), minutes=45)
    times = [each[11:] for each in (*taken, start, *others[len(taken) :])]
    texts = ("how about {}, {} or {}?", "i could do {}, or {}, or else {}", "{} would be best, then {}, then {}")
    mail = scene.add_mail(sender, f"{topic} meeting", rng.choice(texts).format(*times))
    return Draft(
        {"name": sender, "topic": f'"{topic} meeting"', "day": day, "title": f'"{title}"'},
        (
            call("outlook.search", sender=sender, subject=f"{topic} meeting"),
            call("outlook.read", id=mail.id),
            call("calendar.list", day=day),
            call("calendar.create", title=title, start=start, end=later(start, minutes=60), people=[sender]),
            *agreed(call("outlook.reply", id=mail.id, body=start[11:])),
            FINISH,
        ),
    )


FAMILIES = (
    Family(
        "meeting_from_chat",
        4,
        ("teams", "calendar"),
        _chat_meeting,
        templates=joined(
            (
                "{name} asks in our chat for a meeting: enter it with {name} in my calendar, on {day}",
                "in the chat {name} wants to meet: put that into the calendar with {name}, on {day}",
                "{name} wrote in our chat and would like to meet; make a calendar event with {name} on {day}",
                "see how long {name} wants to meet, in our chat, and enter an event for the two of us on {day}",
            ),
            (
                " at the first time from 08:00 when {name} and i are both free, title {title}, and answer "
                "in the chat with the start time only, such as 14:00",
                " as early as both of us are free from 08:00 on, as {title}; then write "
                "the start time, like 14:00, into the chat",
                ", called {title}, at the earliest time from 08:00 that suits {name} and me; post just "
                "the time it begins, like 14:00, in the chat",
            ),
        ),
        heldout=joined(
            (
                "what {name} asks for in our chat can be in the calendar on {day}, {name} invited:",
                "the time that {name} wants (see our chat): invite {name} on {day},",
            ),
            (
                " first slot from 08:00 free for {name} and me, title {title}, and tell {name} in the "
                "chat when it starts, only the time as in 14:00",
                " call it {title}, take the earliest time from 08:00 free for both of us, and message "
                "{name} its start, for example 14:00, nothing else",
            ),
        ),
    ),
    Family(
        "event_cancelled_and_told",
        4,
        ("calendar", "teams"),
        _cancelled_and_told,
        templates=joined(
            (
                "cancel {title} on {day}",
                "{title} on {day} is off: cancel it",
                "take {title} on {day} out of the calendar by cancelling it",
                "we skip {title} on {day}, cancel that",
            ),
            (
                " and post {text} and its start time in the {team} channel, such as {text} 14:00",
                ", then write into the {team} channel {text} followed by the time it was to start, like 14:00",
                "; tell the {team} channel: {text} and then when it would have begun, as in 14:00",
            ),
        ),
        heldout=joined(
            ("no {title} on {day}: cancel it", "please call off {title} on {day}"),
            (
                "; the {team} channel should read {text} plus its start, for instance 14:00",
                " and let the {team} channel know with {text} and the start time behind it, for example 14:00",
            ),
        ),
    ),
    Family(
        "first_free_offer_taken",
        4,
        ("outlook", "calendar"),
        _first_free_offer,
        templates=joined(
            (
                "{name} offers times for {day} in the {topic} mail",
                "in the {topic} mail {name} proposes some times on {day}",
                "{name}'s {topic} mail names three times on {day}",
                "there are times on {day} in the {topic} mail from {name}",
            ),
            (
                ": of those at which i am free for an hour take the one named first, enter {title} with {name} "
                "there and "
                "reply with the time only, like 14:00",
                "; enter {title}, one hour, with {name} at the first of them, in the order of the mail, that is "
                "free in my calendar, and reply "
                "just that time, such as 14:00",
                ". in the order of the mail, choose the first that fits an hour into my calendar, make {title} "
                "with {name} then, and "
                "answer the mail with nothing but the time, like 14:00",
            ),
        ),
        heldout=joined(
            (
                "of the times on {day} that {name} lists in the mail {topic},",
                "{name} can meet on {day}, times in the {topic} mail:",
            ),
            (
                " use the one named first that leaves me free for an hour: an event {title} with {name}, and a "
                "reply that is only the time, for example 14:00",
                " book {title} with {name} for an hour at the one i have free, the first named if there are "
                "several, and reply with that time, as in 14:00",
            ),
        ),
    ),
)
