"""Level 2: one app, three to five steps: look something up, act on one of several items, finish."""

from benchmarks.errands.family import FINISH, Draft, Family, call, sent_mail
from benchmarks.errands.workspace import DAYS
from benchmarks.errands.world import NAMES, PHRASES, TITLES, TOPICS, World

FUNCTIONS = {"total": "SUM", "average": "AVERAGE", "highest": "MAX", "lowest": "MIN"}


def _mail_reply(world: World) -> Draft:
    rng = world.rng
    sender = rng.choice(NAMES)
    topic, *others = rng.sample(TOPICS, rng.randint(2, 3))
    mail = world.add_mail(sender, topic)
    for other in others:
        world.add_mail(sender, other)
    phrase = rng.choice(PHRASES)
    return Draft(
        {"name": sender, "topic": topic, "phrase": f'"{phrase}"'},
        (call("mail.search", from_=sender, subject=topic), call("mail.reply", id=mail.id, body=phrase), FINISH),
        {"mail/+": [sent_mail((sender,), f"re: {topic}", phrase)]},
    )


def _event_shift(world: World) -> Draft:
    rng = world.rng
    day, new_day = rng.sample(DAYS, 2)
    title, *others = rng.sample(TITLES, rng.randint(2, 3))
    event = world.add_event(title, day)
    for other in others:
        world.add_event(other, day)
    start = rng.choice([hour for hour in range(8, 16) if hour != event.start])
    expected = {f"event/{event.id}/day": new_day, f"event/{event.id}/start": start}
    end = start + event.end - event.start
    if end != event.end:
        expected[f"event/{event.id}/end"] = end
    return Draft(
        {"title": title, "day": day, "new_day": new_day, "start": str(start)},
        (
            call("calendar.list", day=day, title=title),
            call("calendar.move", id=event.id, day=new_day, start=str(start)),
            FINISH,
        ),
        dict(expected),
    )


def _sheet_total(world: World) -> Draft:
    rng = world.rng
    sheet = world.add_sheet()
    last = len(sheet.cells) // 2
    word = rng.choice(tuple(FUNCTIONS))
    formula = f"={FUNCTIONS[word]}(B2:B{last})"
    cell = f"B{last + 1}"
    return Draft(
        {"sheet": sheet.name, "what": word},
        (
            call("sheet.read", sheet=sheet.name),
            call("sheet.write", sheet=sheet.name, cell=cell, value=formula),
            FINISH,
        ),
        {f"sheet/{sheet.name}/{cell}": formula},
    )


FAMILIES = (
    Family(
        "mail_reply",
        2,
        _mail_reply,
        templates=(
            "reply to {name}'s mail about the {topic}: {phrase}",
            "answer {name} on the {topic} with {phrase}",
            "{name} wrote about the {topic}, reply {phrase}",
            "tell {name} {phrase} in reply to the {topic} mail",
            "respond to the {topic} mail from {name} saying {phrase}",
            "the {topic} mail by {name} needs an answer: {phrase}",
            "write back to {name} about the {topic}: {phrase}",
            "for the {topic} mail of {name} send back {phrase}",
            "{name} is waiting for a reply on the {topic}, say {phrase}",
        ),
        heldout=(
            "send {name} a reply about the {topic}: {phrase}",
            "answer the mail on the {topic} that {name} wrote: {phrase}",
            "{name} wrote on the {topic}, answer with {phrase}",
        ),
    ),
    Family(
        "event_shift",
        2,
        _event_shift,
        templates=(
            "move the {title} on {day} to {new_day} at {start}",
            "shift {day}'s {title} to {new_day} {start}",
            "the {title} of {day} has to be on {new_day} at {start}",
            "make the {day} {title} start on {new_day} at {start}",
            "reschedule the {title} from {day} to {new_day} {start}",
            "{day}'s {title} moves to {new_day} at {start}",
            "can the {title} on {day} be on {new_day} at {start} instead?",
            "take the {title} on {day} and move it to {new_day} {start}",
            "the {day} {title} does not fit, move it to {new_day} at {start}",
        ),
        heldout=(
            "put the {title} of {day} on {new_day} at {start} instead",
            "the {title} on {day} should move to {new_day} {start}",
            "please have {day}'s {title} on {new_day} at {start}",
        ),
    ),
    Family(
        "sheet_total",
        2,
        _sheet_total,
        templates=(
            "put the {what} under the amounts in {sheet}",
            "add the {what} below the {sheet} table",
            "write the {what} of the amounts at the end of {sheet}",
            "{sheet} needs the {what} under its amounts",
            "below the last amount in {sheet}, put the {what}",
            "work out the {what} at the bottom of {sheet}",
            "finish the {sheet} table with the {what}",
            "the {what} of {sheet} should stand under the amounts",
            "in {sheet}, add a formula for the {what} under column B",
        ),
        heldout=(
            "add a formula with the {what} at the bottom of {sheet}",
            "under the {sheet} table, write the {what} of the amounts",
            "the {sheet} table needs its {what} below the last amount",
        ),
    ),
)
