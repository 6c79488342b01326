"""Tasks across the calendar and another app: meetings that are requested, offered or cancelled there."""

from upturn.environments.office.apps import CLOSES, OPENS, free_spans
from upturn.environments.office.generation import (
    REMARKS,
    TOPICS,
    Draft,
    Family,
    Scene,
    any_channel,
    call,
    free_start,
    open_mail,
    post,
    with_agreement,
)
from upturn.environments.office.state import add_minutes

MEETINGS = ("price round", "kick-off", "site visit", "handover", "quick sync", "sketch talk", "wrap-up")
_LENGTHS = {
    30: ("half an hour", "30 minutes"),
    60: ("an hour", "60 minutes"),
    90: ("90 minutes", "an hour and a half"),
}


def _chat_meeting(scene: Scene) -> Draft:
    rng, owner = scene.rng, scene.workspace.owner
    other, day, title = scene.person(), scene.day(), rng.choice(MEETINGS)
    minutes = rng.choice(list(_LENGTHS))
    scene.add_event("breakfast", f"{day} 08:00", minutes=rng.choice((30, 60, 90, 120)))
    scene.add_event("call", f"{day} {rng.choice(('09:30', '10:00', '10:30'))}", organizer=other, minutes=60)
    free_start(scene, day, [other], minutes=120)
    busy = [event for event in scene.workspace.events.values() if event.concerns(owner) or event.concerns(other)]
    start = free_spans(busy, f"{day} {OPENS}", f"{day} {CLOSES}", minutes=minutes)[0][0]
    length = rng.choice(_LENGTHS[minutes])
    chat = scene.add_chat(other)
    texts = (
        f"can we meet? {length} should do",
        f"i need {length} of your time",
        f"shall we sit together for {length}?",
    )
    scene.add_post(chat, other, rng.choice(texts))
    for remark in rng.sample(REMARKS, rng.randint(0, 2)):
        scene.add_post(chat, other, remark)
    return Draft.with_finish(
        {"name": other, "day": day, "title": f'"{title}"'},
        call("teams.search_chat", sender=other),
        call("calendar.free_busy", people=[other, owner], day=day, minutes=minutes),
        call("calendar.create", title=title, start=start, end=add_minutes(start, minutes=minutes), people=[other]),
        *with_agreement(call("teams.send_message", chat=chat.id, text=start[11:])),
    )


def _cancelled_and_told(scene: Scene) -> Draft:
    rng, channel, title = scene.rng, any_channel(scene), scene.rng.choice(MEETINGS)
    days = sorted({scene.day() for _ in range(6)})[:2]
    day = rng.choice(days)
    people = rng.sample([member for member in channel.members if member != scene.workspace.owner], 3)
    events = {when: scene.add_event(title, free_start(scene, when, people), people=people) for when in days}
    start = events[day].start[11:]
    return Draft.with_finish(
        {"team": channel.team, "title": f'"{title}"', "day": day, "text": f'"{title} cancelled, was at"'},
        call("calendar.list", day=day, title=title),
        *with_agreement(call("calendar.cancel", id=events[day].id)),
        call("teams.list_channels", name=channel.team),
        *post(channel, f"{title} cancelled, was at {start}"),
    )


def _first_free_offer(scene: Scene) -> Draft:
    rng, day, title = scene.rng, scene.day(), scene.rng.choice(MEETINGS)
    sender, topic = scene.person(), rng.choice(TOPICS)
    start = free_start(scene, day)
    others = rng.sample([f"{day} {hour:02d}:00" for hour in range(9, 17) if f"{hour:02d}" != start[11:13]], 2)
    busy_times = others[: rng.randint(1, 2)]
    for moment in busy_times:
        scene.add_event("busy", add_minutes(moment, minutes=rng.choice((0, 15))), minutes=45)
    times = [moment[11:] for moment in (*busy_times, start, *others[len(busy_times) :])]
    texts = ("how about {}, {} or {}?", "i could do {}, or {}, or else {}", "{} would be best, then {}, then {}")
    mail = scene.add_mail(sender, f"{topic} meeting", rng.choice(texts).format(*times))
    return Draft.with_finish(
        {"name": sender, "topic": f'"{topic} meeting"', "day": day, "title": f'"{title}"'},
        *open_mail(mail),
        call("calendar.list", day=day),
        call("calendar.create", title=title, start=start, end=add_minutes(start, minutes=60), people=[sender]),
        *with_agreement(call("outlook.reply", id=mail.id, body=start[11:])),
    )


FAMILIES = (
    Family("meeting_from_chat", 4, ("teams", "calendar"), _chat_meeting),
    Family("event_cancelled_and_told", 4, ("calendar", "teams"), _cancelled_and_told),
    Family("first_free_offer_taken", 4, ("outlook", "calendar"), _first_free_offer),
)
