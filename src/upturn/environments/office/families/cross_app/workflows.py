"""Long tasks across three or more apps, such as a weekly report or an onboarding."""

from upturn.environments.office.apps import CLOSES, OPENS, free_spans
from upturn.environments.office.generation import (
    Draft,
    Family,
    Scene,
    add_book,
    add_deck,
    add_document,
    any_channel,
    call,
    find_file,
    free_start,
    open_mail,
    plain_table,
    post,
    with_agreement,
)
from upturn.environments.office.state import add_minutes

PLACES = ("lake house", "old mill", "north barn", "sea hotel", "glass hall", "hill lodge", "town club")
CAUSES = ("a full disk", "a wrong price", "a lost key", "a torn cable", "an old version", "a missing order")


def _weekly_report(scene: Scene) -> Draft:
    rng, table, deck, channel = scene.rng, plain_table(scene), add_deck(scene), any_channel(scene)
    column = rng.randrange(1, 3)
    rows = rng.sample(table.rows[1:], 2)
    senders = scene.people(2)
    facts = [str(number) for number in rng.sample(range(100, 1_000), 4)]
    texts = ("this week we had {} visitors, after {} the week before", "{1} was last week, now it is {0}")
    mails = [
        scene.add_mail(person, f"{channel.team} week", rng.choice(texts).format(facts[at], facts[at + 2]))
        for at, person in enumerate(senders)
    ]
    scene.add_mail(senders[0], f"{channel.team} month", f"in all {rng.randint(1_000, 9_999)} visitors")
    figures = [row[column] for row in rows]
    return Draft.with_finish(
        {
            **{"team": channel.team, "book": table.name, "deck": deck.name, "column": table.rows[0][column]},
            **{"key": rows[0][0], "other": rows[1][0], "name": senders[0], "second": senders[1]},
            **{"topic": f'"{channel.team} week"', "text": '"this week:"'},
        },
        find_file(table.name),
        call("excel.read_range", id=table.file.id),
        call("outlook.search", subject=f"{channel.team} week"),
        *(call("outlook.read", id=mail.id) for mail in mails),
        find_file(deck.name),
        call("powerpoint.add_slide", id=deck.file.id, title="figures", content="\n".join(figures)),
        call("powerpoint.add_slide", id=deck.file.id, title="news", content="\n".join(facts[:2])),
        call("teams.list_channels", name=channel.team),
        *post(channel, f"this week: {sum(map(int, facts[:2]))}"),
    )


def _onboarding(scene: Scene) -> Draft:
    rng, channel, guide = scene.rng, any_channel(scene), add_document(scene)
    outsiders = [person for person in scene.people(12) if person not in channel.members]
    newcomer, sender, mentor, other = outsiders[:4]
    day, hour, room = scene.day(), rng.randint(9, 16), f"room {rng.randint(100, 499)}"
    texts = (
        "{new} starts soon. {mentor} takes the first day; {other} is on leave. {day} at {hour}:00, {room}.",
        "a new colleague: {new}! the mentor is {mentor}, not {other}. come to {room}, {day} {hour}:00",
        "welcome {new} on {day}, {hour}:00, in {room}. {other} wanted to help, but {mentor} will",
    )
    body = rng.choice(texts).format(
        new=newcomer, mentor=mentor, other=other, day=day, hour=f"{hour:02d}", room=room
    )
    mail = scene.add_mail(sender, "new colleague", body)
    scene.add_mail(other, "new colleague", f"i hear that somebody starts, is it {rng.choice(outsiders[4:])}?")
    start = f"{day} {hour:02d}:00"
    return Draft.with_finish(
        {"name": sender, "team": channel.team, "document": guide.name},
        *open_mail(mail),
        call(
            "calendar.create",
            title="first day",
            start=start,
            end=add_minutes(start, minutes=60),
            people=[*sorted((newcomer, mentor))],
            place=room,
        ),
        call("teams.list_channels", name=channel.team),
        call("teams.add_members", place=channel.id, people=[newcomer]),
        find_file(guide.name),
        *with_agreement(call("sharepoint.set_permissions", id=guide.file.id, people=[newcomer], right="read")),
        *with_agreement(
            call("outlook.send", to=[newcomer], subject="welcome", body=mentor, attachments=[guide.file.id])
        ),
    )


def _offsite(scene: Scene) -> Draft:
    rng, channel, document = scene.rng, any_channel(scene), add_document(scene)
    people, topic = scene.people(3), "offsite"
    days = rng.sample(("2026-03-16", "2026-03-17", "2026-03-18", "2026-03-19", "2026-03-20"), 4)
    choices = [{days[0], days[1], days[2]}, {days[0], days[1], days[3]}, {days[0], days[2], days[3]}]
    texts = ("i can come on {}", "for me it could be {}", "{} would work")
    mails = [
        scene.add_mail(person, topic, rng.choice(texts).format(" or ".join(sorted(choice))))
        for person, choice in zip(people, choices, strict=True)
    ]
    seats = 10 * rng.randint(3, 6)
    names = rng.sample(PLACES, 5)
    prices = sorted(rng.sample(range(200, 1_000), 5))
    rows = [[names[0], str(seats - 10), str(prices[0])], [names[1], str(seats - 5), str(prices[1])]]
    rows += [[names[at], str(seats + 5 * rng.randint(0, 4)), str(prices[at])] for at in (2, 3, 4)]
    rng.shuffle(rows)
    book_name = rng.choice(("venue list", "places to go", "house list"))
    book = add_book(scene, book_name, [["place", "seats", "price"], *rows])
    start, place, price = f"{days[0]} 09:00", names[2], str(prices[2])
    return Draft.with_finish(
        {
            **{"one": people[0], "two": people[1], "three": people[2], "seats": str(seats), "book": book_name},
            **{"document": document.name, "team": channel.team, "what": '"offsite"', "post": '"offsite:"'},
        },
        call("outlook.search", subject=topic),
        *(call("outlook.read", id=mail.id) for mail in mails),
        find_file(book_name),
        call("excel.read_range", id=book.id),
        call(
            "calendar.create",
            title="offsite",
            start=start,
            end=f"{days[0]} 17:00",
            people=[*sorted(people)],
            place=place,
        ),
        find_file(document.name),
        call("word.insert_text", id=document.file.id, text=price),
        call("teams.list_channels", name=channel.team),
        *post(channel, f"offsite: {days[0]}"),
    )


def _incident(scene: Scene) -> Draft:
    rng, channel, document, owner = scene.rng, any_channel(scene), add_document(scene), scene.workspace.owner
    others = [member for member in channel.members if member != owner]
    reporter, fixer, third = rng.sample(others, 3)
    number, older = rng.sample(range(100, 1_000, 10), 2)
    cause, wrong = rng.sample(CAUSES, 2)
    rows = [[str(older - at), rng.choice(CAUSES), rng.choice(others)] for at in range(rng.randint(2, 5), 0, -1)]
    name = rng.choice(("incident log", "trouble log", "fault book"))
    book = add_book(scene, name, [["number", "cause", "person"], *rows])
    texts = (
        "incident {number}: it was {cause}, not {wrong}. {fixer} mended it",
        "{number} is closed. we thought of {wrong}, but {cause} did it; thanks to {fixer}",
        "about {number}: {cause} was behind it, {wrong} was ruled out; {fixer} put it right",
    )
    scene.add_post(channel, third, f"incident {older} was {wrong}, long ago")
    text = rng.choice(texts).format(number=number, cause=cause, wrong=wrong, fixer=fixer)
    scene.add_post(channel, reporter, text)
    day = scene.day()
    free_start(scene, day, [fixer])
    busy = [event for event in scene.workspace.events.values() if event.concerns(owner) or event.concerns(fixer)]
    start = free_spans(busy, f"{day} {OPENS}", f"{day} {CLOSES}", minutes=30)[0][0]
    return Draft.with_finish(
        {
            **{"team": channel.team, "number": str(number), "book": name, "document": document.name},
            **{"day": day, "name": reporter},
        },
        call("teams.list_channels", name=channel.team),
        call("teams.search_chat", query=str(number), place=channel.id),
        find_file(name),
        call("excel.open", id=book.id),
        call("excel.write_range", id=book.id, at=f"A{len(rows) + 2}", rows=[[str(number), cause, fixer]]),
        find_file(document.name),
        call("word.insert_text", id=document.file.id, text=f"{number}: {cause}", style="bullet"),
        call("calendar.free_busy", people=[fixer, owner], day=day, minutes=30),
        call(
            "calendar.create",
            title=f"incident {number}",
            start=start,
            end=add_minutes(start, minutes=30),
            people=[fixer],
        ),
        *with_agreement(call("outlook.send", to=[reporter], subject=f"incident {number}", body=start[11:])),
    )


FAMILIES = (
    Family("weekly_report", 5, ("excel", "outlook", "powerpoint", "teams", "sharepoint"), _weekly_report),
    Family("onboarding", 5, ("outlook", "calendar", "teams", "sharepoint"), _onboarding),
    Family("offsite_planning", 5, ("outlook", "excel", "calendar", "word", "teams", "sharepoint"), _offsite),
    Family("incident_follow_up", 5, ("teams", "excel", "word", "calendar", "outlook", "sharepoint"), _incident),
)
