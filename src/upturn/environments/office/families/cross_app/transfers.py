"""Tasks across two or three apps: content of one app is looked up, transferred, computed or sent in another."""

from dataclasses import replace

from upturn.environments.office.generation import (
    ITEMS,
    RULES,
    TITLES,
    TOPICS,
    Draft,
    Family,
    Scene,
    add_book,
    add_deck,
    add_document,
    add_price_list,
    any_channel,
    call,
    find_file,
    open_mail,
    plain_table,
    post,
    with_agreement,
)
from upturn.environments.office.state import Book, Sheet

THANKS = ("entered, thank you", "it is in", "noted", "all done", "taken over")
FIGURE_SUBJECTS = ("the number", "as you asked", "from the sheet", "a figure for you")
FILE_SUBJECTS = ("the file", "here it is", "for you", "as asked", "from my side")


def _from_mail(scene: Scene) -> Draft:
    table = plain_table(scene)
    sender, topic = scene.person(), scene.rng.choice(RULES["thing"])
    value = str(scene.rng.randint(1_000, 9_999))
    row, column = scene.rng.randrange(1, len(table.rows)), scene.rng.randrange(1, 3)
    key, header = table.amount(row, 0), table.rows[0][column]
    mail = scene.add_mail(sender, f"{topic} figures", f"the new {header} of {key} is {value}")
    scene.add_mail(sender, "lunch", "see you at noon")
    return Draft.with_finish(
        {"book": table.name, "name": sender, "topic": f"{topic} figures"},
        *open_mail(mail),
        find_file(table.name),
        *table.crossing(row, column),
        call("excel.write_range", id=table.file.id, at=table.address(row, column), rows=[[value]]),
    )


def _to_mail(scene: Scene) -> Draft:
    table = plain_table(scene)
    person, subject = scene.person(), scene.rng.choice(FIGURE_SUBJECTS)
    row, column = scene.rng.randrange(1, len(table.rows)), scene.rng.randrange(1, 3)
    slots = {"book": table.name, "name": person, "subject": f'"{subject}"'}
    return Draft.with_finish(
        {**slots, "key": table.amount(row, 0), "column": table.rows[0][column]},
        find_file(table.name),
        *table.crossing(row, column),
        call("excel.read_range", id=table.file.id, range=table.address(row, column)),
        *with_agreement(call("outlook.send", to=[person], subject=subject, body=table.amount(row, column))),
    )


def _filed_and_confirmed(scene: Scene) -> Draft:
    rng, table = scene.rng, plain_table(scene)
    sender, topic, phrase = scene.person(), rng.choice(TOPICS), rng.choice(THANKS)
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
    return Draft.with_finish(
        {"name": sender, "topic": f'"{topic} figures"', "book": table.name, "phrase": f'"{phrase}"'},
        *open_mail(mail),
        find_file(table.name),
        call("excel.read_range", id=table.file.id),
        call("excel.write_range", id=table.file.id, at=table.address(row, column), rows=[[value]]),
        *with_agreement(call("outlook.reply", id=mail.id, body=phrase)),
    )


def _price_slide(scene: Scene) -> Draft:
    rng, prices, deck = scene.rng, add_price_list(scene), add_deck(scene)
    sender, topic = scene.person(), rng.choice(TOPICS)
    item, title = rng.choice(list(prices.prices)), rng.choice(TITLES)
    texts = (
        "all prices are in the document",
        "please find our prices attached",
        "see the list that comes with this",
    )
    mail = scene.add_mail(sender, f"{topic} offer", rng.choice(texts))
    scene.add(replace(mail, attachments=(prices.file.id,)))
    scene.add_mail(sender, f"{topic} plan", f"{item} at {rng.randint(100, 999)}? that was last year")
    return Draft.with_finish(
        {"name": sender, "topic": f'"{topic} offer"', "item": item, "deck": deck.name, "title": f'"{title}"'},
        *open_mail(mail),
        call("word.read_paragraphs", id=prices.file.id, text=item),
        find_file(deck.name),
        call("powerpoint.add_slide", id=deck.file.id, title=title, content=prices.prices[item]),
    )


def _budget_attached(scene: Scene) -> Draft:
    rng, channel, subject = scene.rng, any_channel(scene), scene.rng.choice(FILE_SUBJECTS)
    asking, other = rng.sample([member for member in channel.members if member != scene.workspace.owner], 2)
    year, others = rng.sample(range(2021, 2026), 2)
    cells = {"A1": "item", "B1": "amount", "A2": rng.choice(ITEMS), "B2": str(rng.randint(100, 999))}
    name = f"{channel.team} budget"
    file = scene.add_file(f"/finance/{year}/{name} {year}.xlsx", Book({"Budget": Sheet(cells)}))
    scene.add_file(f"/finance/{others}/{name} {others}.xlsx", Book({"Budget": Sheet(cells)}))
    asks = (f"who can mail me our budget of {year}?", f"i cannot find the budget {year}, could i have it by mail?")
    posts = [(other, f"the budget of {others} is done, thank you all"), (asking, rng.choice(asks))]
    rng.shuffle(posts)
    for person, text in posts:
        scene.add_post(channel, person, text)
    return Draft.with_finish(
        {"team": channel.team, "subject": f'"{subject}"', "text": '"attached"'},
        call("teams.list_channels", name=channel.team),
        call("teams.search_chat", query="budget", place=channel.id),
        find_file(f"{name} {year}"),
        *with_agreement(call("outlook.send", to=[asking], subject=subject, body="attached", attachments=[file.id])),
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
        scene.add_mail(person, f"{topic} decision", rng.choice(texts).format(numbers[at], numbers[at + 4]))
        for at, person in enumerate(people)
    ]
    return Draft.with_finish(
        {
            **{key: name for key, name in zip(("one", "two", "three"), people, strict=False)},
            **{"topic": f'"{topic} decision"', "deck": deck.name, "title": f'"{title}"'},
        },
        call("outlook.search", subject=f"{topic} decision"),
        *(call("outlook.read", id=mail.id) for mail in mails[:3]),
        find_file(deck.name),
        call("powerpoint.add_slide", id=deck.file.id, title=title, content="\n".join(numbers[:3])),
    )


def _rows_to_document(scene: Scene) -> Draft:
    table, document = plain_table(scene), add_document(scene)
    column = scene.rng.randrange(1, 3)
    ordered = sorted((int(row[column]) for row in table.rows[1:]), reverse=True)
    limit = ordered[scene.rng.randint(1, 3)]
    rows = [table.rows[0], *(row for row in table.rows[1:] if int(row[column]) > limit)]
    return Draft.with_finish(
        {"book": table.name, "document": document.name, "column": table.rows[0][column], "limit": str(limit)},
        find_file(table.name),
        call("excel.read_range", id=table.file.id),
        find_file(document.name),
        call("word.insert_table", id=document.file.id, rows="\n".join(" | ".join(row) for row in rows)),
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
    return Draft.with_finish(
        {"book": name, "subject": f'"{subject}"'},
        find_file(name),
        call("excel.read_range", id=book.id),
        *with_agreement(call("outlook.send", to=[people[0]], subject=subject, body=tasks[0])),
    )


def _question_answered(scene: Scene) -> Draft:
    rng, channel, prices = scene.rng, any_channel(scene), add_price_list(scene)
    bystander, asker = rng.sample([member for member in channel.members if member != scene.workspace.owner], 2)
    item, wrong = rng.sample(list(prices.prices), 2)
    asks = (
        "what do the {} cost by the {}?",
        "how much is it for {}? i mean the {}",
        "which price have {} in the {}?",
    )
    posts = [
        (bystander, f"{wrong} are too dear, i saw the {prices.name}"),
        (asker, rng.choice(asks).format(item, prices.name)),
    ]
    rng.shuffle(posts)
    for person, text in posts:
        scene.add_post(channel, person, text)
    return Draft.with_finish(
        {"team": channel.team, "name": asker, "document": prices.name},
        call("teams.list_channels", name=channel.team),
        call("teams.search_chat", query=prices.name, sender=asker, place=channel.id),
        find_file(prices.name),
        call("word.read_paragraphs", id=prices.file.id, text=item),
        *post(channel, prices.prices[item]),
    )


FAMILIES = (
    Family("mail_to_book", 3, ("outlook", "sharepoint", "excel"), _from_mail),
    Family("book_to_mail", 3, ("sharepoint", "excel", "outlook"), _to_mail),
    Family("figure_filed_and_confirmed", 4, ("outlook", "sharepoint", "excel"), _filed_and_confirmed),
    Family("price_from_attachment_to_slide", 4, ("outlook", "word", "powerpoint"), _price_slide),
    Family("budget_mailed_to_whoever_asks", 4, ("teams", "sharepoint", "outlook"), _budget_attached),
    Family("decisions_to_slide", 4, ("outlook", "powerpoint"), _three_decisions),
    Family("rows_to_document", 4, ("excel", "word", "sharepoint"), _rows_to_document),
    Family("late_one_reminded", 4, ("excel", "outlook", "sharepoint"), _late_person),
    Family("channel_question_answered", 4, ("teams", "sharepoint", "word"), _question_answered),
)
