"""Level 1: one or two steps; all facts are in the instruction or one look-up away."""

from benchmarks.errands.family import FINISH, Draft, Family, call
from benchmarks.errands.workspace import DAYS
from benchmarks.errands.world import FILING_FOLDERS, NAMES, TITLES, TOPICS, World


def _mail_file(world: World) -> Draft:
    rng = world.rng
    mail = world.add_mail(rng.choice(NAMES), rng.choice(TOPICS))
    world.add_mail(rng.choice(NAMES), rng.choice(TOPICS))
    folder = rng.choice(FILING_FOLDERS)
    return Draft(
        {"mail": mail.id, "folder": folder},
        (call("mail.move", id=mail.id, folder=folder), FINISH),
        {f"mail/{mail.id}/folder": folder},
    )


def _event_add(world: World) -> Draft:
    rng = world.rng
    title, day, start = rng.choice(TITLES), rng.choice(DAYS), rng.randint(8, 15)
    end = start + rng.randint(1, 2)
    return Draft(
        {"title": title, "day": day, "start": str(start), "end": str(end)},
        (call("calendar.create", title=title, day=day, start=str(start), end=str(end)), FINISH),
        {"event/+": [{"title": title, "day": day, "start": start, "end": end, "attendees": []}]},
    )


def _cell_ask(world: World) -> Draft:
    sheet = world.add_sheet()
    cell = world.rng.choice([address for address in sheet.cells if address[0] == "B" and address != "B1"])
    return Draft(
        {"sheet": sheet.name, "cell": cell},
        (call("sheet.read", sheet=sheet.name, range=cell), call("user.answer", text=sheet.cells[cell])),
        {},
        answer=sheet.cells[cell],
    )


def _unread_count(world: World) -> Draft:
    rng = world.rng
    for sender in rng.sample(NAMES, rng.randint(1, 4)):
        world.add_mail(sender, rng.choice(TOPICS))
    world.add_chatter()
    count = str(sum(not mail.is_read for mail in world.mails))
    return Draft({}, (call("mail.list", folder="inbox"), call("user.answer", text=count)), {}, answer=count)


def _day_clash(world: World) -> Draft:
    rng = world.rng
    day = rng.choice(DAYS)
    for title in rng.sample(TITLES, 3):
        world.add_event(title, day)
    world.fill()
    events = [event for event in world.events if event.day == day]
    clashing = sorted(
        event.id for event in events if any(event.overlaps(other) for other in events if other is not event)
    )
    answer = " ".join(clashing) or "none"
    return Draft(
        {"day": day}, (call("calendar.list", day=day), call("user.answer", text=answer)), {}, answer=answer
    )


FAMILIES = (
    Family(
        "mail_file",
        1,
        _mail_file,
        templates=(
            "move {mail} to {folder}",
            "file {mail} under {folder}",
            "put mail {mail} into the {folder} folder",
            "{mail} belongs in {folder}",
            "i want {mail} in {folder}",
            "sort {mail} into {folder}",
            "take {mail} out of the inbox and into {folder}",
            "store message {mail} in {folder}",
            "{folder} is where {mail} should go",
        ),
        heldout=(
            "place {mail} in {folder}",
            "the {folder} folder is where {mail} belongs",
            "bring message {mail} to {folder}",
        ),
    ),
    Family(
        "event_add",
        1,
        _event_add,
        templates=(
            "add a {title} on {day} from {start} to {end}",
            "put a {title} in my calendar, {day} {start} to {end}",
            "i have a {title} on {day} from {start} until {end}",
            "block {day} {start} to {end} for a {title}",
            "new event: {title}, {day}, {start} to {end}",
            "schedule a {title} for {day} from {start} to {end}",
            "{day} from {start} to {end} is {title} time",
            "book a {title} on {day} between {start} and {end}",
            "note a {title} on {day}, it starts at {start} and ends at {end}",
        ),
        heldout=(
            "enter a {title} for {day}, {start} until {end}",
            "on {day} i need a {title} between {start} and {end}",
            "make a new {title} in the calendar on {day} from {start} to {end}",
        ),
    ),
    Family(
        "cell_ask",
        1,
        _cell_ask,
        templates=(
            "what is in {cell} of {sheet}?",
            "what does {cell} say in the {sheet} sheet?",
            "read me cell {cell} of {sheet}",
            "tell me the value of {cell} in {sheet}",
            "which number is in {cell} on {sheet}?",
            "look up {cell} in the {sheet} sheet",
            "{sheet} sheet, cell {cell}: what is it?",
            "i need the value in {cell} of {sheet}",
            "give me {cell} from {sheet}",
        ),
        heldout=(
            "what value has {cell} on the {sheet} sheet?",
            "tell me what {sheet} has in cell {cell}",
            "which value do you see in {cell} of the {sheet} sheet?",
        ),
    ),
    Family(
        "unread_count",
        1,
        _unread_count,
        templates=(
            "how many unread mails are in my inbox?",
            "count the unread mails in the inbox",
            "number of unread mails?",
            "how many mails have i not read?",
            "is there much unread? give me the count",
            "unread mails in the inbox: how many?",
        ),
        heldout=("tell me how many unread mails i have", "what is the count of unread mails?"),
        is_learned=False,
    ),
    Family(
        "day_clash",
        1,
        _day_clash,
        templates=(
            "which events clash on {day}?",
            "do any events overlap on {day}?",
            "list the events that clash on {day}",
            "find overlaps on {day}",
            "what overlaps on {day}?",
            "clashing events on {day}?",
        ),
        heldout=("tell me which events overlap on {day}", "is there a clash on {day}? which events?"),
        is_learned=False,
    ),
)
