"""Tasks with questions about the mailbox."""

from upturn.environments.office.generation import (
    AMOUNTS,
    CORRECTIONS,
    ITEMS,
    REMARKS,
    Draft,
    Family,
    Scene,
    add_lookalikes,
    add_number_thread,
    add_thread,
    call,
    open_mail,
)

_ROLES = ("write", "check", "sign", "print", "present", "translate", "pay")


def _number(scene: Scene) -> Draft:
    sender, topic, number = scene.person(), scene.words.topic(), scene.words.digits()
    mail = scene.add_mail(sender, topic, scene.words.letter(AMOUNTS, number))
    add_lookalikes(scene, mail, AMOUNTS)
    return Draft.with_answer({"name": sender, "topic": topic}, number, *open_mail(mail))


def _item(scene: Scene) -> Draft:
    sender, topic = scene.person(), scene.words.topic()
    items = scene.rng.sample(ITEMS, 4)
    form = scene.rng.choice(("{i} {n}", "{n} for {i}", "{i}: {n}", "{i} is at {n}"))
    amounts, others = ({item: scene.words.digits() for item in items} for _ in range(2))
    body, other_body = (
        ", ".join(form.format(i=item, n=number) for item, number in listed.items()) for listed in (amounts, others)
    )
    mail = scene.add_mail(sender, topic, scene.words.letter((body,)))
    add_lookalikes(scene, mail, (other_body,))
    item = scene.rng.choice(items)
    return Draft.with_answer({"name": sender, "topic": topic, "item": item}, amounts[item], *open_mail(mail))


def _role(scene: Scene) -> Draft:
    sender, *people = scene.people(4)
    topic, roles = scene.words.topic(), scene.rng.sample(_ROLES, 3)
    form = scene.rng.choice(
        ("{p} is to {r} it", "{p} will {r} it", "to {r} it is up to {p}", "{p} wants to {r} it")
    )
    bodies = [
        "; ".join(form.format(p=person, r=role) for person, role in zip(assigned, roles, strict=True))
        for assigned in (people, (*people[1:], people[0]))
    ]
    mail = scene.add_mail(sender, topic, scene.words.letter((bodies[0],)))
    add_lookalikes(scene, mail, (bodies[1],))
    return Draft.with_answer({"name": sender, "topic": topic, "role": roles[1]}, people[1], *open_mail(mail))


def _last_writer(scene: Scene) -> Draft:
    people, topic = scene.people(4), scene.words.topic()
    count = scene.rng.randint(3, 5)
    writers = [scene.rng.choice(people) for _ in range(count)]
    add_thread(
        scene,
        topic,
        [(writer, scene.words.letter((*AMOUNTS, *REMARKS), scene.words.digits())) for writer in writers],
    )
    scene.add_mail(scene.person(), scene.words.similar(topic), scene.words.letter(REMARKS))
    return Draft.with_answer({"topic": topic}, writers[-1], call("outlook.search", subject=topic))


def _newest(scene: Scene) -> Draft:
    sender, other = scene.people(2)
    topic = scene.words.topic()
    writers = [sender] * scene.rng.randint(2, 3) + [other] * scene.rng.randint(1, 2)
    scene.rng.shuffle(writers)
    numbers = [scene.words.digits() for _ in writers]
    bodies = [scene.words.letter(AMOUNTS, number) for number in numbers]
    mails = add_thread(scene, topic, list(zip(writers, bodies, strict=True)))
    last = max(index for index, writer in enumerate(writers) if writer == sender)
    return Draft.with_answer(
        {"name": sender, "topic": topic},
        numbers[last],
        call("outlook.search", sender=sender, subject=topic),
        call("outlook.read", id=mails[last].id),
    )


def _unread_sum(scene: Scene) -> Draft:
    sender, topic = scene.person(), scene.words.topic()
    count = scene.rng.randint(2, 3)
    mails = []
    total = 0
    for index in range(count + 2):
        number, is_read = scene.rng.randint(100, 499), index >= count
        mail = scene.add_mail(sender, topic, scene.words.letter(AMOUNTS, number), is_read=is_read)
        if not is_read:
            mails.append(mail)
            total += number
    add_lookalikes(scene, mails[0], AMOUNTS)
    return Draft.with_answer(
        {"name": sender, "topic": topic},
        str(total),
        call("outlook.search", sender=sender, subject=topic, is_unread=True),
        *(call("outlook.read", id=mail.id) for mail in mails),
    )


def _last_word(scene: Scene) -> Draft:
    people, topic, number = scene.people(3), scene.words.topic(), scene.words.digits()
    mails = add_number_thread(scene, topic, people, number, count=scene.rng.randint(3, 4))
    scene.add_mail(people[0], scene.words.similar(topic), scene.words.letter(CORRECTIONS, scene.words.digits()))
    return Draft.with_answer(
        {"topic": topic},
        number,
        call("outlook.search", subject=topic),
        *(call("outlook.read", id=mail.id) for mail in reversed(mails)),
    )


def _two_hops(scene: Scene) -> Draft:
    first, second = scene.people(2)
    (topic, further), number = scene.words.topics(2), scene.words.digits()
    hint = (
        f"ask {second}, who wrote it under {further}",
        f"it stands in what {second} sent about the {further}",
        f"{second} knows, see the mail on the {further}",
        f"look at the {further} mail of {second}",
    )
    pointing = scene.add_mail(first, topic, scene.words.letter(hint))
    add_lookalikes(scene, pointing, AMOUNTS)
    answering = scene.add_mail(second, further, scene.words.letter(AMOUNTS, number))
    add_lookalikes(scene, answering, AMOUNTS)
    return Draft.with_answer({"name": first, "topic": topic}, number, *open_mail(pointing), *open_mail(answering))


FAMILIES = (
    Family("mail_number", 1, ("outlook",), _number),
    Family("mail_item", 1, ("outlook",), _item),
    Family("mail_role", 1, ("outlook",), _role),
    Family("mail_last_writer", 1, ("outlook",), _last_writer),
    Family("mail_newest", 1, ("outlook",), _newest),
    Family("mail_unread_sum", 2, ("outlook",), _unread_sum),
    Family("mail_last_word", 2, ("outlook",), _last_word),
    Family("mail_two_hops", 2, ("outlook",), _two_hops),
)
