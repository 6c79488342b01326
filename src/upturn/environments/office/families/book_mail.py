"""Tasks between mail and workbooks: a number goes from one into the other."""

from upturn.environments.office.generation import FINISH, RULES, Draft, Family, Scene, agreed, call, plain_table

SUBJECTS = ("the number", "as you asked", "from the sheet", "a figure for you")


def _from_mail(scene: Scene) -> Draft:
    table = plain_table(scene)
    sender, topic, value = (
        scene.people(1)[0],
        scene.rng.choice(RULES["thing"]),
        str(scene.rng.randint(1_000, 9_999)),
    )
    row, column = scene.rng.randrange(1, len(table.rows)), scene.rng.randrange(1, 3)
    key, header = table.amount(row, 0), table.rows[0][column]
    mail = scene.add_mail(sender, f"{topic} figures", f"the new {header} of {key} is {value}")
    scene.add_mail(sender, "lunch", "see you at noon")
    return Draft(
        {"book": table.name, "name": sender, "topic": f"{topic} figures"},
        (
            call("outlook.search", sender=sender, subject=f"{topic} figures"),
            call("outlook.read", id=mail.id),
            call("sharepoint.search", query=table.name),
            *table.crossing(row, column),
            call("excel.write_range", id=table.file.id, at=f"{'ABC'[column]}{row + 1}", rows=[[value]]),
            FINISH,
        ),
    )


def _to_mail(scene: Scene) -> Draft:
    table = plain_table(scene)
    person, subject = scene.people(1)[0], scene.rng.choice(SUBJECTS)
    row, column = scene.rng.randrange(1, len(table.rows)), scene.rng.randrange(1, 3)
    slots = {"book": table.name, "name": person, "subject": f'"{subject}"'}
    return Draft(
        {**slots, "key": table.amount(row, 0), "column": table.rows[0][column]},
        (
            call("sharepoint.search", query=table.name),
            *table.crossing(row, column),
            call("excel.read_range", id=table.file.id, range=f"{'ABC'[column]}{row + 1}"),
            *agreed(call("outlook.send", to=[person], subject=subject, body=table.amount(row, column))),
            FINISH,
        ),
    )


FAMILIES = (
    Family(
        "mail_to_book",
        3,
        ("outlook", "sharepoint", "excel"),
        _from_mail,
        templates=(
            "enter what {name} writes under {topic} into the {book}",
            "update the {book} from {name}'s {topic} mail",
            "{name} sent {topic}: put the number into the {book}",
            "bring the {book} up to date with the {topic} mail from {name}",
            "take the new number from {name}'s mail {topic} over into the {book}",
            "the {topic} mail from {name} changes the {book}, enter it",
            "correct the {book} by what {name} says in {topic}",
            "read {name}'s {topic} mail and update the {book}",
            "put the figure of the {topic} mail from {name} where it belongs in the {book}",
            "{name}'s {topic} mail has a number for the {book}, write it there",
        ),
        heldout=(
            "the {book} should say what {name} wrote in {topic}",
            "from the mail {topic} by {name}, update the {book}",
            "transfer the number in {name}'s {topic} mail to the {book}",
            "write into the {book} the number that {name} mailed under {topic}",
        ),
    ),
    Family(
        "book_to_mail",
        3,
        ("sharepoint", "excel", "outlook"),
        _to_mail,
        templates=(
            "mail {name} the {column} of {key} from the {book}, just the number, subject {subject}",
            "send {name} the {column} of {key} by the {book}, subject {subject}, only the number",
            "write {name}, under {subject}, what {column} the {book} has for {key}, the number alone",
            "{name} wants the {column} of {key} from the {book}: mail the bare number, subject {subject}",
            "look up the {column} of {key} in the {book} and mail the number to {name}, subject {subject}",
            "to {name}, subject {subject}: the {column} of {key} in the {book}, nothing but the number",
            "let {name} know by mail ({subject}) the {column} of {key} in the {book}, number only",
            "from the {book}, send the {column} of {key} to {name} as a plain number, subject {subject}",
            "a mail {subject} to {name} with only the {column} of {key} from the {book}",
            "tell {name} by mail the {column} of {key}, see the {book}; subject {subject}, body the number",
        ),
        heldout=(
            "mail the {column} of {key} to {name}; it is in the {book}; subject {subject}, only the number",
            "{name} should get a mail {subject} that says the {column} of {key} of the {book}, only the number",
            "send a mail {subject} to {name}, its body the {column} of {key} in the {book}",
            "let {name} have the {column} of {key} from the {book} by a mail {subject}, the bare number",
        ),
    ),
)
