"""Level 3: five to ten steps across apps: read a fact, use it in another app, inform people."""

from benchmarks.errands.family import FINISH, Draft, Family, call, sent_mail
from benchmarks.errands.workspace import DAYS
from benchmarks.errands.world import NAMES, PHRASES, TITLES, TOPICS, World

PROPOSALS = (
    "how about {day} at {hour}?",
    "can we meet {day} at {hour}",
    "{day} {hour} would suit me",
    "let us meet on {day} at {hour}",
)
PRICES = (
    "{item} is now {number}",
    "the new amount for {item} is {number}",
    "please set {item} to {number}",
    "{number} for {item} from now on",
)


def _mail_to_event(world: World) -> Draft:
    rng = world.rng
    sender, day, hour = rng.choice(NAMES), rng.choice(DAYS), rng.randint(8, 16)
    topic, other = rng.sample(TOPICS, 2)
    mail = world.add_mail(sender, topic, rng.choice(PROPOSALS).format(day=day, hour=hour))
    world.add_mail(sender, other)
    title, phrase = rng.choice(TITLES), rng.choice(PHRASES)
    return Draft(
        {"name": sender, "topic": topic, "title": title, "phrase": f'"{phrase}"'},
        (
            call("mail.search", from_=sender, subject=topic),
            call("mail.read", id=mail.id),
            call("calendar.create", title=title, day=day, start=str(hour), end=str(hour + 1), with_=sender),
            call("mail.reply", id=mail.id, body=phrase),
            FINISH,
        ),
        {
            "event/+": [{"title": title, "day": day, "start": hour, "end": hour + 1, "attendees": [sender]}],
            "mail/+": [sent_mail((sender,), f"re: {topic}", phrase)],
        },
    )


def _mail_to_sheet(world: World) -> Draft:
    rng = world.rng
    sheet = world.add_sheet()
    row = rng.randint(2, len(sheet.cells) // 2)
    item, number = sheet.cells[f"A{row}"], str(rng.randint(10, 99))
    while number == sheet.cells[f"B{row}"]:
        number = str(rng.randint(10, 99))
    sender = rng.choice(NAMES)
    topic, other = rng.sample(TOPICS, 2)
    mail = world.add_mail(sender, topic, rng.choice(PRICES).format(item=item, number=number))
    world.add_mail(sender, other)
    return Draft(
        {"name": sender, "topic": topic, "sheet": sheet.name},
        (
            call("mail.search", from_=sender, subject=topic),
            call("mail.read", id=mail.id),
            call("sheet.find", sheet=sheet.name, text=item),
            call("sheet.write", sheet=sheet.name, cell=f"B{row}", value=number),
            call("mail.move", id=mail.id, folder="archive"),
            FINISH,
        ),
        {f"sheet/{sheet.name}/B{row}": number, f"mail/{mail.id}/folder": "archive"},
    )


def _call_off(world: World) -> Draft:
    rng = world.rng
    day = rng.choice(DAYS)
    title, *others = rng.sample(TITLES, rng.randint(2, 3))
    people = tuple(rng.sample(NAMES, rng.randint(1, 2)))
    event = world.add_event(title, day, people)
    for other in others:
        world.add_event(other, day)
    phrase = rng.choice(PHRASES)
    return Draft(
        {"title": title, "day": day, "phrase": f'"{phrase}"'},
        (
            call("calendar.list", day=day, title=title),
            call("calendar.read", id=event.id),
            call("calendar.cancel", id=event.id),
            call("mail.send", to=",".join(event.attendees), subject=title, body=phrase),
            FINISH,
        ),
        {"event/-": [event.id], "mail/+": [sent_mail(event.attendees, title, phrase)]},
    )


FAMILIES = (
    Family(
        "mail_to_event",
        3,
        _mail_to_event,
        templates=(
            "{name} proposes a time in the {topic} mail: book a {title} with {name} then and reply {phrase}",
            "see when {name} can meet in the {topic} mail, add a {title} with {name} and answer {phrase}",
            "book the {title} that {name} asks for in the {topic} mail, then reply {phrase}",
            "the {topic} mail from {name} names a time, put a {title} with {name} there and reply {phrase}",
            "{name} wants to meet, the {topic} mail says when: add a {title} with {name}, answer {phrase}",
            "from the {topic} mail of {name} make a {title} with {name} and write back {phrase}",
            "add a {title} with {name} at the time in the {topic} mail and say {phrase} in reply",
            "read {name}'s {topic} mail, book a {title} with {name} at that time, reply {phrase}",
            "schedule a {title} with {name} when the {topic} mail says and respond {phrase}",
        ),
        heldout=(
            "book a {title} with {name} at the time that the {topic} mail names and answer {phrase}",
            "read when {name} can meet in the {topic} mail, add the {title} with {name} and reply {phrase}",
            "{name}'s {topic} mail says when to meet: schedule a {title} with {name} and write back {phrase}",
        ),
    ),
    Family(
        "mail_to_sheet",
        3,
        _mail_to_sheet,
        templates=(
            "{name} sent a new amount in the {topic} mail: update {sheet} and archive the mail",
            "bring {sheet} up to date with the {topic} mail from {name}, then archive it",
            "the {topic} mail by {name} changes an amount in {sheet}, enter it and archive the mail",
            "update the {sheet} sheet from {name}'s {topic} mail and archive that mail",
            "enter what {name} writes in the {topic} mail into {sheet}, then archive it",
            "{sheet} is out of date, {name} has the new amount in the {topic} mail; archive it after",
            "take the amount from the {topic} mail of {name}, put it into {sheet}, archive the mail",
            "copy the new amount in {name}'s {topic} mail to {sheet} and archive the mail",
            "read the {topic} mail from {name}, correct {sheet}, and archive it",
        ),
        heldout=(
            "put the amount that {name} sent in the {topic} mail into {sheet} and archive the mail",
            "correct the {sheet} sheet with the {topic} mail from {name}, then archive that mail",
            "{name} has a new amount for {sheet} in the {topic} mail: enter it, archive the mail",
        ),
    ),
    Family(
        "call_off",
        3,
        _call_off,
        templates=(
            "call off the {title} on {day} and tell everyone in it {phrase}",
            "cancel {day}'s {title} and write {phrase} to all attendees",
            "the {title} on {day} is off, cancel it and let its people know: {phrase}",
            "drop the {day} {title} and mail the attendees {phrase}",
            "cancel the {title} of {day}, then send everyone in it {phrase}",
            "no {title} on {day}: cancel it and tell the attendees {phrase}",
            "take the {title} off {day} and send its people {phrase}",
            "please cancel the {day} {title} and inform those invited with {phrase}",
            "remove the {title} on {day} and write to everyone invited: {phrase}",
        ),
        heldout=(
            "cancel the {title} on {day} and send the attendees {phrase}",
            "{day}'s {title} is off: cancel it, tell everyone in it {phrase}",
            "call off the {day} {title} and let everyone invited know: {phrase}",
        ),
    ),
)
