"""Tasks that are answered from the mailbox."""

from upturn.environments.office.generation import (
    AMOUNTS,
    CORRECTIONS,
    ITEMS,
    REMARKS,
    Draft,
    Family,
    Scene,
    add_lookalikes,
    add_thread,
    answer,
    call,
    digits,
    letter,
    near,
    topics,
)

_ROLES = ("write", "check", "sign", "print", "present", "translate", "pay")


def _number(scene: Scene) -> Draft:
    sender, topic, number = scene.people(1)[0], topics(scene.rng, 1)[0], digits(scene.rng)
    mail = scene.add_mail(sender, topic, letter(scene.rng, AMOUNTS, number))
    add_lookalikes(scene, mail, AMOUNTS)
    return Draft(
        {"name": sender, "topic": topic},
        (
            call("outlook.search", sender=sender, subject=topic),
            call("outlook.read", id=mail.id),
            answer(number),
        ),
        answer=number,
    )


def _item(scene: Scene) -> Draft:
    sender, topic = scene.people(1)[0], topics(scene.rng, 1)[0]
    items = scene.rng.sample(ITEMS, 4)
    said = scene.rng.choice(("{i} {n}", "{n} for {i}", "{i}: {n}", "{i} is at {n}"))
    amounts, others = ({item: digits(scene.rng) for item in items} for _ in range(2))
    body, other_body = (
        ", ".join(said.format(i=item, n=number) for item, number in each.items()) for each in (amounts, others)
    )
    mail = scene.add_mail(sender, topic, letter(scene.rng, (body,)))
    add_lookalikes(scene, mail, (other_body,))
    item = scene.rng.choice(items)
    return Draft(
        {"name": sender, "topic": topic, "item": item},
        (
            call("outlook.search", sender=sender, subject=topic),
            call("outlook.read", id=mail.id),
            answer(amounts[item]),
        ),
        answer=amounts[item],
    )


def _role(scene: Scene) -> Draft:
    sender, *people = scene.people(4)
    topic, roles = topics(scene.rng, 1)[0], scene.rng.sample(_ROLES, 3)
    said = scene.rng.choice(
        ("{p} is to {r} it", "{p} will {r} it", "to {r} it is up to {p}", "{p} wants to {r} it")
    )
    bodies = [
        "; ".join(said.format(p=person, r=role) for person, role in zip(who, roles, strict=True))
        for who in (people, (*people[1:], people[0]))
    ]
    mail = scene.add_mail(sender, topic, letter(scene.rng, (bodies[0],)))
    add_lookalikes(scene, mail, (bodies[1],))
    return Draft(
        {"name": sender, "topic": topic, "role": roles[1]},
        (
            call("outlook.search", sender=sender, subject=topic),
            call("outlook.read", id=mail.id),
            answer(people[1]),
        ),
        answer=people[1],
    )


def _last_writer(scene: Scene) -> Draft:
    people, topic = scene.people(4), topics(scene.rng, 1)[0]
    count = scene.rng.randint(3, 5)
    writers = [scene.rng.choice(people) for _ in range(count)]
    add_thread(
        scene, topic, [(each, letter(scene.rng, (*AMOUNTS, *REMARKS), digits(scene.rng))) for each in writers]
    )
    scene.add_mail(scene.people(1)[0], near(scene.rng, topic), letter(scene.rng, REMARKS))
    return Draft(
        {"topic": topic},
        (call("outlook.search", subject=topic), answer(writers[-1])),
        answer=writers[-1],
    )


def _newest(scene: Scene) -> Draft:
    sender, other = scene.people(2)
    topic = topics(scene.rng, 1)[0]
    writers = [sender] * scene.rng.randint(2, 3) + [other] * scene.rng.randint(1, 2)
    numbers = [digits(scene.rng) for _ in writers]
    said = [letter(scene.rng, AMOUNTS, number) for number in numbers]
    mails = add_thread(scene, topic, list(zip(writers, said, strict=True)))
    last = max(place for place, writer in enumerate(writers) if writer == sender)
    return Draft(
        {"name": sender, "topic": topic},
        (
            call("outlook.search", sender=sender, subject=topic),
            call("outlook.read", id=mails[last].id),
            answer(numbers[last]),
        ),
        answer=numbers[last],
    )


def _unread_sum(scene: Scene) -> Draft:
    sender, topic = scene.people(1)[0], topics(scene.rng, 1)[0]
    count = scene.rng.randint(2, 3)
    mails = []
    total = 0
    for place in range(count + 2):
        number, is_read = scene.rng.randint(100, 499), place >= count
        mail = scene.add_mail(sender, topic, letter(scene.rng, AMOUNTS, number), is_read=is_read)
        if not is_read:
            mails.append(mail)
            total += number
    add_lookalikes(scene, mails[0], AMOUNTS)
    return Draft(
        {"name": sender, "topic": topic},
        (
            call("outlook.search", sender=sender, subject=topic, is_unread=True),
            *(call("outlook.read", id=mail.id) for mail in mails),
            answer(str(total)),
        ),
        answer=str(total),
    )


def _last_word(scene: Scene) -> Draft:
    people, topic, number = scene.people(3), topics(scene.rng, 1)[0], digits(scene.rng)
    turns = [
        (people[0], letter(scene.rng, AMOUNTS, digits(scene.rng))),
        (people[1], letter(scene.rng, REMARKS)),
        (scene.rng.choice(people), letter(scene.rng, CORRECTIONS, number)),
        *(
            (scene.rng.choice((*people, scene.workspace.owner)), letter(scene.rng, REMARKS))
            for _ in range(scene.rng.randint(1, 3))
        ),
    ]
    mails = add_thread(scene, topic, turns)
    scene.add_mail(people[0], near(scene.rng, topic), letter(scene.rng, CORRECTIONS, digits(scene.rng)))
    return Draft(
        {"topic": topic},
        (
            call("outlook.search", subject=topic),
            *(call("outlook.read", id=mail.id) for mail in reversed(mails[2:])),
            answer(number),
        ),
        answer=number,
    )


def _two_hops(scene: Scene) -> Draft:
    first, second = scene.people(2)
    (topic, further), number = topics(scene.rng, 2), digits(scene.rng)
    hint = (
        f"ask {second}, who wrote it under {further}",
        f"it stands in what {second} sent about the {further}",
        f"{second} knows, see the mail on the {further}",
        f"look at the {further} mail of {second}",
    )
    begun = scene.add_mail(first, topic, letter(scene.rng, hint))
    add_lookalikes(scene, begun, AMOUNTS)
    found = scene.add_mail(second, further, letter(scene.rng, AMOUNTS, number))
    add_lookalikes(scene, found, AMOUNTS)
    return Draft(
        {"name": first, "topic": topic},
        (
            call("outlook.search", sender=first, subject=topic),
            call("outlook.read", id=begun.id),
            call("outlook.search", sender=second, subject=further),
            call("outlook.read", id=found.id),
            answer(number),
        ),
        answer=number,
    )


FAMILIES = (
    Family(
        "mail_number",
        1,
        ("outlook",),
        _number,
        templates=(
            "what number does {name} give in the {topic} mail?",
            "look up the number in {name}'s {topic} mail",
            "tell me the number that {name} sent under {topic}",
            "which number is in the mail about {topic} from {name}?",
            "find {name}'s mail on {topic} and tell me the number in it",
            "i need the number from {name}'s {topic} mail",
            "{name} wrote about {topic}: what is the number?",
            "the {topic} mail from {name} has a number, which one?",
            "there is a number in what {name} mailed me on {topic}; tell me just that",
            "check my mail from {name} about {topic} for the number and give it to me",
        ),
        heldout=(
            "from the {topic} mail of {name}, what is the number?",
            "read me the number {name} mentions in {topic}",
            "what is the number in {topic}, the mail by {name}?",
            "i forgot which number {name} mailed me for {topic}, can you see?",
        ),
    ),
    Family(
        "mail_item",
        1,
        ("outlook",),
        _item,
        templates=(
            "how much is it for {item} in {name}'s {topic} mail? just the number",
            "what amount does {name} give for {item} in the mail about {topic}?",
            "tell me the number for {item} from {name}'s mail on {topic}",
            "{name} listed amounts under {topic}: which one is for {item}?",
            "look into the {topic} mail from {name} and tell me what {item} comes to",
            "in {name}'s mail {topic}, what number stands for {item}?",
            "i need the amount for {item} that {name} mailed under {topic}",
            "find {name}'s {topic} mail and give me the {item} amount",
            "what did {name} put down for {item} in {topic}? the number is enough",
            "the mail {topic} by {name} has a number for {item}; what is it?",
        ),
        heldout=(
            "for {item}, what amount does {name}'s {topic} mail say?",
            "check {name}'s {topic} mail: how much for {item}?",
            "give me just the number for {item} as {name} mailed it under {topic}",
            "what is {item} at, according to the {topic} mail of {name}?",
        ),
    ),
    Family(
        "mail_role",
        1,
        ("outlook",),
        _role,
        templates=(
            "who is to {role} it, according to {name}'s {topic} mail? give the id, such as ann.lee",
            "{name} mailed about {topic}: who will {role} it? answer with the id only",
            "tell me the id of the one who is to {role} it in {name}'s mail on {topic}",
            "look up in the {topic} mail from {name} who is going to {role} it; just the id",
            "in {name}'s mail {topic}, whose job is it to {role} it? the id will do",
            "find {name}'s {topic} mail and tell me who has to {role} it, as an id like ann.lee",
            "i want to know who will {role} it as {name} has it under {topic}; only the id",
            "who did {name} name to {role} it in the {topic} mail? id only",
            "the {topic} mail by {name} says who is to {role} it: give me that id",
            "read {name}'s mail on {topic} and answer with the id of who will {role} it",
        ),
        heldout=(
            "by {name}'s mail about {topic}, who should {role} it? reply with the id",
            "whom does {name} want to {role} it in {topic}? just the id, like ann.lee",
            "check who is down to {role} it in the {topic} mail of {name} and give me the id",
            "name the one to {role} it, by id, from {name}'s {topic} mail",
        ),
    ),
    Family(
        "mail_last_writer",
        1,
        ("outlook",),
        _last_writer,
        templates=(
            "who wrote last about {topic}? give the id, such as ann.lee",
            "whose mail on {topic} is the newest? answer with the id only",
            "tell me who sent the latest mail about {topic}, as an id like ann.lee",
            "find out who wrote to me last under {topic}; the id is enough",
            "the newest mail on {topic}: who is it from? just the id",
            "i want the id of whoever mailed last about {topic}",
            "look at the mails on {topic} and name the sender of the last one by id",
            "who had the last word on {topic} in my mail? id only",
            "give me the id of the sender of the most recent {topic} mail",
            "who was the last one to write on {topic}? only the id",
        ),
        heldout=(
            "from whom is the most recent mail about {topic}? the id, please",
            "name the latest sender on {topic}, as an id such as ann.lee",
            "in the conversation on {topic}, who wrote the last mail? id only",
            "check who mailed me last about {topic} and tell me the id",
        ),
    ),
    Family(
        "mail_newest",
        1,
        ("outlook",),
        _newest,
        templates=(
            "what number is in the newest mail from {name} about {topic}?",
            "{name} wrote several times about {topic}; tell me the number in the latest of those mails",
            "find the last mail that {name} sent on {topic} and tell me its number",
            "which number did {name} give last under {topic}?",
            "look up the number in {name}'s most recent {topic} mail",
            "of the {topic} mails from {name}, what number does the newest give?",
            "i need the number from the latest mail by {name} on {topic}",
            "tell me the number {name} mailed most recently about {topic}",
            "open {name}'s newest mail on {topic}: what is the number in it?",
            "the last thing {name} mailed about {topic} has a number, which?",
        ),
        heldout=(
            "give me the number in what {name} sent last about {topic}",
            "in {name}'s latest {topic} mail, what is the number?",
            "check the most recent mail on {topic} by {name} for the number",
            "what is the number as of {name}'s newest mail under {topic}?",
        ),
    ),
    Family(
        "mail_unread_sum",
        2,
        ("outlook",),
        _unread_sum,
        templates=(
            "add up the numbers in the unread mails that {name} sent about {topic}",
            "what do the numbers in {name}'s unread {topic} mails come to together?",
            "sum the numbers of all mails from {name} on {topic} that i have not read yet",
            "tell me the total of the numbers in the unread mails by {name} under {topic}",
            "{name} sent several mails about {topic}; add the numbers of those that are unread",
            "total the numbers in what is unread from {name} about {topic}",
            "i have unread mails from {name} on {topic}: what is the sum of their numbers?",
            "find the unread {topic} mails from {name} and give me the sum of the numbers in them",
            "how much is it in all, counting only {name}'s unread mails on {topic}?",
            "look through {name}'s unread mails about {topic}, add their numbers and tell me the sum",
        ),
        heldout=(
            "what is the sum over {name}'s unread {topic} mails?",
            "put together the numbers from each unread mail of {name} about {topic}",
            "give me the total of {name}'s {topic} numbers, only from mails that are still unread",
            "of the {topic} mails by {name}, take the unread ones and add up their numbers",
        ),
    ),
    Family(
        "mail_last_word",
        2,
        ("outlook",),
        _last_word,
        templates=(
            "what is the number for {topic} in the end? the last one given in the mails on it counts",
            "the number for {topic} was corrected by mail; what is it now?",
            "tell me the number that holds for {topic}, after all corrections in my mail",
            "look through the mails on {topic} and tell me the number given last",
            "which number for {topic} is valid by now, as the mails have it?",
            "in the conversation about {topic} a number is given and then changed: what is it now?",
            "find the final number for {topic} in my mail",
            "i need the number for {topic} as it was last corrected by mail",
            "what number did they end up with in the {topic} mails?",
            "go through the {topic} conversation from the end and tell me the last number in it",
        ),
        heldout=(
            "by the mails about {topic}, which number counts now?",
            "give me the newest number anybody mailed on {topic}",
            "what was the last number mentioned in the {topic} mails?",
            "the {topic} number changed over several mails; tell me the one that stands",
        ),
    ),
    Family(
        "mail_two_hops",
        2,
        ("outlook",),
        _two_hops,
        templates=(
            "{name}'s {topic} mail says where a number is to be found; tell me that number",
            "follow what {name} wrote about {topic} to the mail with the number and tell me the number",
            "for {topic}, {name} points to another mail; which number is in that one?",
            "the mail on {topic} from {name} sends me to somebody else's mail: what number does that give?",
            "find the number that {name} refers me to in the {topic} mail",
            "read {name}'s {topic} mail, look up the mail it names and give me the number there",
            "what is the number that {name}'s mail about {topic} tells me to look up?",
            "{name} did not give the number under {topic} but says who did; what is it?",
            "look where {name}'s {topic} mail tells you to look and tell me the number",
            "i need the number that one finds by following {name}'s mail on {topic}",
        ),
        heldout=(
            "starting from {name}'s {topic} mail, find the mail with the number and tell me it",
            "which number is in the mail that {name} mentions under {topic}?",
            "go from {name}'s mail about {topic} to the one it names; what number is there?",
            "{name} wrote under {topic} whose mail has the number; give me the number",
        ),
    ),
)
