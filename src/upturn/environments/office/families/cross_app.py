"""Tasks over two or three apps: what one says is looked up, carried over, computed or passed on in another."""

from collections.abc import Iterator
from dataclasses import replace

from upturn.environments.office.generation import (
    FINISH,
    ITEMS,
    TITLES,
    TOPICS,
    Draft,
    Family,
    Scene,
    add_book,
    add_deck,
    add_document,
    add_price_list,
    agreed,
    call,
    joined,
    plain_table,
)
from upturn.environments.office.state import Book, Channel, Sheet
from upturn.records import Action

THANKS = ("entered, thank you", "it is in", "noted", "all done", "taken over")
SUBJECTS = ("the file", "here it is", "for you", "as asked", "from my side")


def found(name: str) -> Action:
    """Looks a file up by its name."""
    return call("sharepoint.search", query=name)


def posted(channel: Channel, text: str) -> Iterator[Action]:
    """Writes into a channel, once the user has agreed."""
    return agreed(call("teams.post_to_channel", channel=channel.id, text=text))


def a_channel(scene: Scene) -> Channel:
    """One of the owner's."""
    return scene.rng.choice(list(scene.workspace.channels.values()))


def _filed_and_confirmed(scene: Scene) -> Draft:
    rng, table = scene.rng, plain_table(scene)
    sender, topic, phrase = scene.people(1)[0], rng.choice(TOPICS), rng.choice(THANKS)
    row, column = rng.randrange(1, len(table.rows)), rng.randrange(1, 3)
    key, header, old = table.amount(row, 0), table.rows[0][column], table.amount(row, column)
    value, other = (str(number) for number in rng.sample(range(1_000, 10_000), 2))
    texts = (
        f"the {header} of {key} is {value} from now on, not {old} any more",
        f"we agreed on {value} as the {header} of {key}; {other} was only a first guess",
        f"{other} is off the table: {key} gets a {header} of {value}",
    )
    mail = scene.add_mail(sender, f"{topic} figures", rng.choice(texts))
    scene.add_mail(sender, f"{topic} question", f"is {other} still the {header} of {key}?")
    return Draft(
        {"name": sender, "topic": f'"{topic} figures"', "book": table.name, "phrase": f'"{phrase}"'},
        (
            call("outlook.search", sender=sender, subject=f"{topic} figures"),
            call("outlook.read", id=mail.id),
            found(table.name),
            call("excel.read_range", id=table.file.id),
            call("excel.write_range", id=table.file.id, at=f"{'ABC'[column]}{row + 1}", rows=[[value]]),
            *agreed(call("outlook.reply", id=mail.id, body=phrase)),
            FINISH,
        ),
    )


def _price_slide(scene: Scene) -> Draft:
    rng, prices, deck = scene.rng, add_price_list(scene), add_deck(scene)
    sender, topic = scene.people(1)[0], rng.choice(TOPICS)
    item, title = rng.choice(list(prices.prices)), rng.choice(TITLES)
    texts = (
        "all prices are in the document",
        "please find our prices attached",
        "see the list that comes with this",
    )
    mail = scene.add_mail(sender, f"{topic} offer", rng.choice(texts))
    scene.add(replace(mail, attachments=(prices.file.id,)))
    scene.add_mail(sender, f"{topic} plan", f"{item} at {rng.randint(100, 999)}? that was last year")
    return Draft(
        {"name": sender, "topic": f'"{topic} offer"', "item": item, "deck": deck.name, "title": f'"{title}"'},
        (
            call("outlook.search", sender=sender, subject=f"{topic} offer"),
            call("outlook.read", id=mail.id),
            call("word.read_paragraphs", id=prices.file.id, text=item),
            found(deck.name),
            call("powerpoint.add_slide", id=deck.file.id, title=title, content=prices.prices[item]),
            FINISH,
        ),
    )


def _budget_attached(scene: Scene) -> Draft:
    rng, channel, subject = scene.rng, a_channel(scene), scene.rng.choice(SUBJECTS)
    asking, other = rng.sample([each for each in channel.members if each != scene.workspace.owner], 2)
    year, others = rng.sample(range(2021, 2026), 2)
    cells = {"A1": "item", "B1": "amount", "A2": rng.choice(ITEMS), "B2": str(rng.randint(100, 999))}
    name = f"{channel.team} budget"
    file = scene.add_file(f"/finance/{year}/{name} {year}.xlsx", Book({"Budget": Sheet(cells)}))
    scene.add_file(f"/finance/{others}/{name} {others}.xlsx", Book({"Budget": Sheet(cells)}))
    scene.add_post(channel, other, f"the budget of {others} is done, thank you all")
    asks = (f"who can mail me our budget of {year}?", f"i cannot find the budget {year}, could i have it by mail?")
    scene.add_post(channel, asking, rng.choice(asks))
    return Draft(
        {"team": channel.team, "subject": f'"{subject}"', "text": '"attached"'},
        (
            call("teams.list_channels", name=channel.team),
            call("teams.search_chat", query="budget", place=channel.id),
            found(f"{name} {year}"),
            *agreed(call("outlook.send", to=[asking], subject=subject, body="attached", attachments=[file.id])),
            FINISH,
        ),
    )


def _three_decisions(scene: Scene) -> Draft:
    rng, deck, people = scene.rng, add_deck(scene), scene.people(4)
    topic, title = rng.choice(TOPICS), rng.choice(TITLES)
    numbers = [str(number) for number in rng.sample(range(100, 1_000), 8)]
    texts = (
        "we decided on {}, after {} was voted down",
        "it will be {}; nobody wanted {}",
        "not {1} but {0}, we say",
    )
    mails = [
        scene.add_mail(each, f"{topic} decision", rng.choice(texts).format(numbers[at], numbers[at + 4]))
        for at, each in enumerate(people)
    ]
    return Draft(
        {
            **{key: name for key, name in zip(("one", "two", "three"), people, strict=False)},
            **{"topic": f'"{topic} decision"', "deck": deck.name, "title": f'"{title}"'},
        },
        (
            call("outlook.search", subject=f"{topic} decision"),
            *(call("outlook.read", id=mail.id) for mail in mails[:3]),
            found(deck.name),
            call("powerpoint.add_slide", id=deck.file.id, title=title, content="\n".join(numbers[:3])),
            FINISH,
        ),
    )


def _rows_to_document(scene: Scene) -> Draft:
    table, document = plain_table(scene), add_document(scene)
    column = scene.rng.randrange(1, 3)
    ordered = sorted((int(row[column]) for row in table.rows[1:]), reverse=True)
    limit = ordered[scene.rng.randint(1, 3)]
    kept = [table.rows[0], *(row for row in table.rows[1:] if int(row[column]) > limit)]
    return Draft(
        {"book": table.name, "document": document.name, "column": table.rows[0][column], "limit": str(limit)},
        (
            found(table.name),
            call("excel.read_range", id=table.file.id),
            found(document.name),
            call("word.insert_table", id=document.file.id, rows="\n".join(" | ".join(row) for row in kept)),
            FINISH,
        ),
    )


def _late_person(scene: Scene) -> Draft:
    rng, people = scene.rng, scene.people(7)
    tasks = rng.sample(TOPICS, 7)
    past = [f"2026-02-{rng.randint(2, 27):02d}" for _ in range(7)]
    rows = [[tasks[0], people[0], past[0], "open"]]
    for at in range(1, 7):
        due, state = rng.choice(
            ((past[at], "done"), (f"2026-03-{at + 3:02d}", "open"), (f"2026-03-{at + 3:02d}", "done"))
        )
        rows.append([tasks[at], people[at], due, state])
    rng.shuffle(rows)
    name, subject = rng.choice(("task list", "work plan", "action list")), rng.choice(("still open", "a reminder"))
    book = add_book(scene, name, [["task", "person", "due", "state"], *rows])
    return Draft(
        {"book": name, "subject": f'"{subject}"'},
        (
            found(name),
            call("excel.read_range", id=book.id),
            *agreed(call("outlook.send", to=[people[0]], subject=subject, body=tasks[0])),
            FINISH,
        ),
    )


def _question_answered(scene: Scene) -> Draft:
    rng, channel, prices = scene.rng, a_channel(scene), add_price_list(scene)
    one, other = rng.sample([each for each in channel.members if each != scene.workspace.owner], 2)
    item, wrong = rng.sample(list(prices.prices), 2)
    asks = (
        "what do the {} cost by the {}?",
        "how much is it for {}? i mean the {}",
        "which price have {} in the {}?",
    )
    scene.add_post(channel, one, f"{wrong} are too dear, i saw the {prices.name}")
    scene.add_post(channel, other, rng.choice(asks).format(item, prices.name))
    return Draft(
        {"team": channel.team, "name": other, "document": prices.name},
        (
            call("teams.list_channels", name=channel.team),
            call("teams.search_chat", query=prices.name, sender=other, place=channel.id),
            found(prices.name),
            call("word.read_paragraphs", id=prices.file.id, text=item),
            *posted(channel, prices.prices[item]),
            FINISH,
        ),
    )


FAMILIES = (
    Family(
        "figure_filed_and_confirmed",
        4,
        ("outlook", "sharepoint", "excel"),
        _filed_and_confirmed,
        templates=joined(
            (
                "enter the new number from {name}'s {topic} mail into the {book}",
                "{name} sent {topic}: put the new number where it belongs in the {book}",
                "bring the {book} up to date with what {name} writes under {topic}",
                "the {topic} mail from {name} changes one cell of the {book}, enter it",
            ),
            (", then reply {phrase}", " and answer the mail with {phrase}", "; reply to it: {phrase}"),
        ),
        heldout=joined(
            (
                "take the figure of the {topic} mail by {name} over into the {book}",
                "{name}'s {topic} mail corrects the {book}",
            ),
            (", and write back {phrase}", ": do that, and let {name} know {phrase} as a reply"),
        ),
    ),
    Family(
        "price_from_attachment_to_slide",
        4,
        ("outlook", "word", "powerpoint"),
        _price_slide,
        templates=joined(
            (
                "{name} attached a price document to the {topic} mail: put the price of {item} from it on",
                "take the price of {item} from the document attached to {name}'s {topic} mail and put it on",
                "look up {item} in what {name} attached to the {topic} mail and write its price on",
                "the price of {item} is in the document that came with {name}'s {topic} mail; it goes on",
            ),
            (
                " a new last slide {title} of the {deck}, the number alone as its only bullet",
                " a slide {title} at the end of the {deck}, with nothing but the number as bullet",
                " a new slide titled {title}, the last one of the {deck}; one bullet, only the number",
            ),
        ),
        heldout=joined(
            (
                "from {name}'s attachment to {topic}, put the price of {item} on",
                "what is the price of {item} by the document in {name}'s {topic} mail? it goes on",
            ),
            (
                " a slide {title} appended to the {deck}, bullet: just the number",
                " one more slide at the end of the {deck}, title {title}, its bullet the bare number",
            ),
        ),
    ),
    Family(
        "budget_mailed_to_whoever_asks",
        4,
        ("teams", "sharepoint", "outlook"),
        _budget_attached,
        templates=joined(
            (
                "somebody in the {team} channel asks to be mailed a budget",
                "in the {team} channel someone wants a budget by mail",
                "there is a request for a budget file in the {team} channel",
                "someone of the {team} channel asked there to get a budget",
            ),
            (
                ": send them the file, subject {subject}, text {text}",
                "; mail it to them as an attachment, subject {subject} and text {text}",
                ". find that file and send it to whoever asked, under {subject}, saying {text}",
            ),
        ),
        heldout=joined(
            (
                "check the {team} channel for who needs a budget by mail",
                "a budget was asked for in the {team} channel",
            ),
            (
                " and send that person the right file, subject {subject}, body {text}",
                "; attach the right one to a mail {subject} to that person, body {text}",
            ),
        ),
    ),
    Family(
        "decisions_to_slide",
        4,
        ("outlook", "powerpoint"),
        _three_decisions,
        templates=joined(
            (
                "{one}, {two} and {three} each sent a mail {topic}",
                "there are mails {topic} by {one}, {two} and {three}",
                "read the {topic} mails of {one}, {two} and {three}",
                "{one}, {two}, {three}: each decided on a number, see their {topic} mails",
            ),
            (
                ": put the three numbers, in this order, as bullets on a new last slide {title} of the {deck}",
                "; add a slide {title} at the end of the {deck} whose bullets are the numbers they settled on, "
                "in that order",
                ". what they agreed to goes on a new slide {title} at the end of the {deck}, a bullet with just "
                "the number for each, in this order",
            ),
        ),
        heldout=joined(
            (
                "collect what {one}, {two} and {three} settled on in their {topic} mails",
                "the {topic} of {one}, of {two} and of {three} came by mail",
            ),
            (
                ": three bullets, numbers only, same order, on a slide {title} appended to the {deck}",
                "; make it a last slide {title} in the {deck}, one number a bullet, in the order i named them",
            ),
        ),
    ),
    Family(
        "rows_to_document",
        4,
        ("excel", "word", "sharepoint"),
        _rows_to_document,
        templates=joined(
            (
                "put the rows of the {book} whose {column} is above {limit}",
                "copy those rows of the {book} with a {column} over {limit}",
                "from the {book}, take all rows whose {column} is more than {limit}",
                "the rows of the {book} with {column} greater than {limit} go",
            ),
            (
                " into a table at the end of the {document}, with the header, in the order of the sheet",
                ", header first, as a table into the {document}, at its end, order unchanged",
                " to the end of the {document} as a table that begins with the header row; keep their order",
            ),
        ),
        heldout=joined(
            (
                "every row of the {book} where {column} exceeds {limit} belongs",
                "i want the {book} rows with more than {limit} {column}",
            ),
            (
                " in a table that closes the {document}, under the same header, in the same order",
                " as a table after the last paragraph of the {document}: header, then the rows as they come",
            ),
        ),
    ),
    Family(
        "late_one_reminded",
        4,
        ("excel", "outlook", "sharepoint"),
        _late_person,
        templates=joined(
            (
                "one task in the {book} is open and was due before 2026-03-02",
                "somebody in the {book} is late: state open, due before 2026-03-02",
                "by the {book} one open task is overdue (today is 2026-03-02)",
                "today is 2026-03-02; one person of the {book} has not done an open task in time",
            ),
            (
                ": mail that person, subject {subject}, the name of the task as the only text",
                "; send the person a mail {subject} that just names the task",
                ". write to them under {subject}, text: the task as the sheet calls it, nothing else",
            ),
        ),
        heldout=joined(
            (
                "find who is late in the {book} on 2026-03-02 with something still open",
                "as of 2026-03-02 one open row of the {book} is past its due date",
            ),
            (
                "; mail that person {subject}, the body being the task's name",
                ": whoever has it gets a mail, subject {subject}, body only the task",
            ),
        ),
    ),
    Family(
        "channel_question_answered",
        4,
        ("teams", "sharepoint", "word"),
        _question_answered,
        templates=joined(
            (
                "{name} asks for a price in the {team} channel",
                "in the {team} channel {name} wants to know a price",
                "there is a question about a price by {name} in the {team} channel",
                "{name} asked something about prices in the {team} channel",
            ),
            (
                "; look it up in the {document} and post it there, the number only",
                ": answer there with the bare number, which is in the {document}",
                ". the {document} has it: write just the number into the channel",
            ),
        ),
        heldout=joined(
            (
                "look what price {name} asks about in the {team} channel",
                "{name} needs a price, see the {team} channel",
            ),
            (
                " and post the number from the {document} there, nothing else",
                ": post that number, as the {document} gives it, in the same place",
            ),
        ),
    ),
)
