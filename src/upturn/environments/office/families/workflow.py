"""Long tasks over three apps and more: what a person would call a piece of work rather than an errand."""

from upturn.environments.office.apps import CLOSES, OPENS, free_spans
from upturn.environments.office.families.cross_app import a_channel, found, posted
from upturn.environments.office.generation import (
    FINISH,
    Draft,
    Family,
    Scene,
    add_book,
    add_deck,
    add_document,
    agreed,
    call,
    joined,
    plain_table,
)
from upturn.environments.office.state import later

PLACES = ("lake house", "old mill", "north barn", "sea hotel", "glass hall", "hill lodge", "town club")
CAUSES = ("a full disk", "a wrong price", "a lost key", "a torn cable", "an old version", "a missing order")


def _weekly_report(scene: Scene) -> Draft:
    rng, table, deck, channel = scene.rng, plain_table(scene), add_deck(scene), a_channel(scene)
    column = rng.randrange(1, 3)
    rows = rng.sample(table.rows[1:], 2)
    senders = scene.people(2)
    facts = [str(number) for number in rng.sample(range(100, 1_000), 4)]
    texts = ("this week we had {} visitors, after {} the week before", "{1} was last week, now it is {0}")
    mails = [
        scene.add_mail(each, f"{channel.team} week", rng.choice(texts).format(facts[at], facts[at + 2]))
        for at, each in enumerate(senders)
    ]
    scene.add_mail(senders[0], f"{channel.team} month", f"in all {rng.randint(1_000, 9_999)} visitors")
    figures = [row[column] for row in rows]
    return Draft(
        {
            **{"team": channel.team, "book": table.name, "deck": deck.name, "column": table.rows[0][column]},
            **{"key": rows[0][0], "other": rows[1][0], "name": senders[0], "second": senders[1]},
            **{"topic": f'"{channel.team} week"', "text": '"this week:"'},
        },
        (
            found(table.name),
            call("excel.read_range", id=table.file.id),
            call("outlook.search", subject=f"{channel.team} week"),
            *(call("outlook.read", id=mail.id) for mail in mails),
            found(deck.name),
            call("powerpoint.add_slide", id=deck.file.id, title="figures", content="\n".join(figures)),
            call("powerpoint.add_slide", id=deck.file.id, title="news", content="\n".join(facts[:2])),
            call("teams.list_channels", name=channel.team),
            *posted(channel, f"this week: {sum(map(int, facts[:2]))}"),
            FINISH,
        ),
    )


def _onboarding(scene: Scene) -> Draft:
    rng, channel, guide = scene.rng, a_channel(scene), add_document(scene)
    outsiders = [each for each in scene.people(12) if each not in channel.members]
    newcomer, sender, mentor, other = outsiders[:4]
    day, hour, room = scene.day(), rng.randint(9, 16), f"room {rng.randint(100, 499)}"
    texts = (
        "{new} starts soon. {mentor} takes the first day; {other} is on leave. {day} at {hour}:00, {room}.",
        "a new colleague: {new}! the mentor is {mentor}, not {other}. come to {room}, {day} {hour}:00",
        "welcome {new} on {day}, {hour}:00, in {room}. {other} wanted to help, but {mentor} will",
    )
    said = rng.choice(texts).format(
        new=newcomer, mentor=mentor, other=other, day=day, hour=f"{hour:02d}", room=room
    )
    mail = scene.add_mail(sender, "new colleague", said)
    scene.add_mail(other, "new colleague?", f"i hear that somebody starts, is it {rng.choice(outsiders[4:])}?")
    start = f"{day} {hour:02d}:00"
    return Draft(
        {"name": sender, "team": channel.team, "document": guide.name},
        (
            call("outlook.search", sender=sender, subject="new colleague"),
            call("outlook.read", id=mail.id),
            call(
                "calendar.create",
                title="first day",
                start=start,
                end=later(start, minutes=60),
                people=[*sorted((newcomer, mentor))],
                place=room,
            ),
            call("teams.list_channels", name=channel.team),
            call("teams.add_members", place=channel.id, people=[newcomer]),
            found(guide.name),
            *agreed(call("sharepoint.set_permissions", id=guide.file.id, people=[newcomer], right="read")),
            *agreed(
                call(
                    "outlook.send",
                    to=[newcomer],
                    subject="welcome",
                    body=mentor,
                    attachments=[guide.file.id],
                )
            ),
            FINISH,
        ),
    )


def _offsite(scene: Scene) -> Draft:
    rng, channel, document = scene.rng, a_channel(scene), add_document(scene)
    people, topic = scene.people(3), "offsite"
    days = rng.sample(("2026-03-16", "2026-03-17", "2026-03-18", "2026-03-19", "2026-03-20"), 4)
    choices = [{days[0], days[1], days[2]}, {days[0], days[1], days[3]}, {days[0], days[2], days[3]}]
    texts = ("i can come on {}", "for me it could be {}", "{} would work")
    mails = [
        scene.add_mail(each, topic, rng.choice(texts).format(" or ".join(sorted(choice))))
        for each, choice in zip(people, choices, strict=True)
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
    return Draft(
        {
            **{"one": people[0], "two": people[1], "three": people[2], "seats": str(seats), "book": book_name},
            **{"document": document.name, "team": channel.team, "what": '"offsite"', "post": '"offsite:"'},
        },
        (
            call("outlook.search", subject=topic),
            *(call("outlook.read", id=mail.id) for mail in mails),
            found(book_name),
            call("excel.read_range", id=book.id),
            call(
                "calendar.create",
                title="offsite",
                start=start,
                end=f"{days[0]} 17:00",
                people=[*sorted(people)],
                place=place,
            ),
            found(document.name),
            call("word.insert_text", id=document.file.id, text=price),
            call("teams.list_channels", name=channel.team),
            *posted(channel, f"offsite: {days[0]}"),
            FINISH,
        ),
    )


def _incident(scene: Scene) -> Draft:
    rng, channel, document, owner = scene.rng, a_channel(scene), add_document(scene), scene.workspace.owner
    others = [each for each in channel.members if each != owner]
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
    said = rng.choice(texts).format(number=number, cause=cause, wrong=wrong, fixer=fixer)
    scene.add_post(channel, reporter, said)
    day = scene.day()
    scene.free_start(day, [fixer])
    busy = [each for each in scene.workspace.events.values() if each.concerns(owner) or each.concerns(fixer)]
    start = free_spans(busy, f"{day} {OPENS}", f"{day} {CLOSES}", minutes=30)[0][0]
    return Draft(
        {
            **{"team": channel.team, "number": str(number), "book": name, "document": document.name},
            **{"day": day, "name": reporter},
        },
        (
            call("teams.list_channels", name=channel.team),
            call("teams.search_chat", query=str(number), place=channel.id),
            found(name),
            call("excel.open", id=book.id),
            call("excel.write_range", id=book.id, at=f"A{len(rows) + 2}", rows=[[str(number), cause, fixer]]),
            found(document.name),
            call("word.insert_text", id=document.file.id, text=f"{number}: {cause}", style="bullet"),
            call("calendar.free_busy", people=[fixer, owner], day=day, minutes=30),
            call(
                "calendar.create",
                title=f"incident {number}",
                start=start,
                end=later(start, minutes=30),
                people=[fixer],
            ),
            *agreed(call("outlook.send", to=[reporter], subject=f"incident {number}", body=start[11:])),
            FINISH,
        ),
    )


FAMILIES = (
    Family(
        "weekly_report",
        5,
        ("excel", "outlook", "powerpoint", "teams", "sharepoint"),
        _weekly_report,
        templates=joined(
            (
                "weekly report for {team}, two new slides at the end of the {deck}: first ",
                "write this week's report of {team}: append two slides to the {deck}, first ",
                "add two more slides for the {team} week at the end of the {deck}: ",
                "make the {team} report: add to the end of the {deck}, one after the other, ",
            ),
            (
                '"figures" with the {column} of {key} and of {other} from the {book}, then "news" with the '
                "visitors of "
                "this week that {name} and {second} mailed under {topic}; all bullets are bare numbers in this "
                "order. ",
                'the slide "figures" (bullets: the {column} of {key}, the {column} of {other}, see the {book}) '
                "and the "
                "slide \"news\" (bullets: the visitors of this week by {name}'s {topic} mail, then by {second}'s), "
                "numbers only. ",
            ),
            (
                "then post {text} and the sum of the two visitor numbers in the {team} channel, such as {text} 999",
                "last, the {team} channel should get {text} and behind it both visitor numbers added up, like "
                "{text} 999",
            ),
        ),
        heldout=joined(
            ("{team} week in the {deck}, at the end: ", "for the {team} report, extend the {deck} by two slides: "),
            (
                '"figures", bullets {column} of {key}, then of {other} ({book}); "news", bullets this week\'s '
                "visitors from "
                "the {topic} mails of {name}, then of {second}; plain numbers. ",
            ),
            (
                "after that write {text} plus the total of this week's visitors into the {team} channel, for "
                "example {text} 999",
                "to the {team} channel: {text} and the visitors of both mails in one number, as in {text} 999",
            ),
        ),
    ),
    Family(
        "onboarding",
        5,
        ("outlook", "calendar", "teams", "sharepoint"),
        _onboarding,
        templates=joined(
            (
                "{name} mailed about a new colleague. ",
                "see {name}'s mail on the new colleague. ",
                "somebody new starts, {name}'s mail says who, when and where. ",
            ),
            (
                'enter an hour "first day" with the newcomer and the mentor at that time and place, add the '
                "newcomer to "
                "the {team} channel, ",
                'make an event "first day" of one hour, then and there, with the new one and the mentor; put the '
                "new one "
                "into the {team} channel, ",
            ),
            (
                'let them read the {document}, and mail it to them as an attachment, subject "welcome", text: '
                "the id of the "
                "mentor, such as ann.lee",
                'give them the right to read the {document} and send it to them attached to a mail "welcome" '
                "whose only "
                "text is the mentor's id, like ann.lee",
            ),
        ),
        heldout=joined(
            (
                "welcome the new colleague of whom {name} writes: ",
                "{name} has told me by mail who joins us. please prepare it: ",
            ),
            (
                'one hour "first day" in the calendar with mentor and newcomer where and when the mail says, '
                "membership of "
                "the {team} channel for the newcomer, ",
            ),
            (
                'read access to the {document}, and a mail "welcome" to the newcomer with that file attached; it '
                "says only "
                "the mentor's id, in the form ann.lee",
                'the {document} open to the newcomer for reading and attached to a mail, subject "welcome", body '
                "just the "
                "mentor as ann.lee",
            ),
        ),
    ),
    Family(
        "offsite_planning",
        5,
        ("outlook", "excel", "calendar", "word", "teams", "sharepoint"),
        _offsite,
        templates=joined(
            (
                'plan the offsite. {one}, {two} and {three} mailed when they can, subject "offsite": ',
                'the "offsite" mails of {one}, {two} and {three} say on which days each can. ',
                '{one}, {two} and {three} each sent an "offsite" mail with their days. ',
            ),
            (
                "on the one day that suits all three, enter {what} with them from 09:00 to 17:00, in the "
                "cheapest place of "
                "the {book} that has at least {seats} seats. ",
                "make {what} from 09:00 to 17:00 on the day that all of them named, invite them, and take as "
                "place the "
                "cheapest of the {book} with {seats} seats or more. ",
            ),
            (
                "write its price, only the number, as a last paragraph into the {document} and post {post} with "
                "the day in the "
                "{team} channel, such as {post} 2026-03-31",
                "the {document} gets the price at its end, the bare number as a paragraph; the {team} channel "
                "gets {post} and the "
                "day, like {post} 2026-03-31",
            ),
        ),
        heldout=joined(
            (
                'find a day for the offsite from the "offsite" mails by {one}, {two} and {three}, ',
                'when can {one}, {two} and {three} all come? they mailed under "offsite". ',
            ),
            (
                "then enter {what} on it, 09:00 to 17:00, with the three, at the place of the {book} that costs "
                "least of those with at "
                "least {seats} seats. ",
            ),
            (
                "append the price as a paragraph of its own (number only) to the {document} and tell the {team} "
                "channel {post} plus the "
                "day, for example {post} 2026-03-31",
                "what it costs, as a bare number, ends the {document} as a paragraph; {post} and the day, as in "
                "{post} 2026-03-31, goes to the "
                "{team} channel",
            ),
        ),
    ),
    Family(
        "incident_follow_up",
        5,
        ("teams", "excel", "word", "calendar", "outlook", "sharepoint"),
        _incident,
        templates=joined(
            (
                "follow up on incident {number}, see the {team} channel: ",
                "{name} wrote about incident {number} in the {team} channel. ",
                "incident {number} is explained in the {team} channel; follow it up: ",
            ),
            (
                "add a row to the {book} with its number, the cause and the id of whoever fixed it, and a last "
                "bullet paragraph to "
                'the {document}: the number, a colon, the cause, like "{number}: a broken lamp". ',
                "log it in the next free row of the {book} (number, cause in the words of the channel, id of the "
                "person who "
                'fixed it), and end the {document} with a bullet paragraph such as "{number}: a broken lamp", '
                "with the real cause. ",
            ),
            (
                'then enter 30 minutes "incident {number}" with that person on {day}, as early as both are free '
                "from 08:00, "
                'and mail {name}, subject "incident {number}", only its start time, such as 14:00',
                'last, half an hour "incident {number}" on {day} with that person at the first time free for '
                "both of us, and "
                'a mail "incident {number}" to {name} that just gives the time it starts, like 14:00',
            ),
        ),
        heldout=joined(
            (
                "look up incident {number} in the {team} channel and do the rest: ",
                "the {team} channel knows what incident {number} was. ",
            ),
            (
                "a new row below the others in the {book}: number, cause, id of who mended it; in the "
                "{document}, as bullet at the very "
                'end, number and cause as in "{number}: a broken lamp". ',
            ),
            (
                '"incident {number}", 30 minutes on {day}, with whoever mended it, first slot from 08:00 that is '
                "free for them and me "
                '; {name} gets a mail, subject "incident {number}", body its start as in 14:00',
                'an event "incident {number}" of half an hour with the one who mended it, earliest time on {day} '
                "that is free for them and "
                'for me; write {name} a mail "incident {number}" with nothing but that time, for example '
                "14:00",
            ),
        ),
    ),
)
