"""Tasks that write mails: replies, forwards, new mails and drafts."""

from dataclasses import replace

from upturn.environments.office.generation import (
    AMOUNTS,
    CORRECTIONS,
    REMARKS,
    Draft,
    Family,
    Scene,
    add_lookalikes,
    add_number_thread,
    call,
    find_file,
    find_mail,
    open_mail,
    two_folders,
    with_agreement,
)
from upturn.environments.office.state import Mail, PlainText

_SUBJECTS = ("short note", "for you", "a word on this", "next step", "to keep in mind", "as you asked", "one point")


def _mail(scene: Scene) -> Mail:
    """A mail with lookalikes."""
    mail = scene.add_mail(scene.person(), scene.words.topic(), scene.words.letter(REMARKS))
    add_lookalikes(scene, mail, REMARKS)
    return mail


def _reply(scene: Scene) -> Draft:
    mail, text = _mail(scene), scene.words.phrase()
    return Draft.with_finish(
        {"name": mail.sender, "topic": mail.subject, "phrase": f'"{text}"'},
        find_mail(mail),
        *with_agreement(call("outlook.reply", id=mail.id, body=text)),
    )


def _reply_all(scene: Scene) -> Draft:
    mail, text = _mail(scene), scene.words.phrase()
    others = [person for person in scene.people(4) if person != mail.sender][:3]
    some = scene.rng.randint(1, 2)
    scene.add(replace(mail, to=tuple(sorted((*mail.to, *others[:some]))), cc=tuple(sorted(others[some:]))))
    return Draft.with_finish(
        {"name": mail.sender, "topic": mail.subject, "phrase": f'"{text}"'},
        find_mail(mail),
        *with_agreement(call("outlook.reply", id=mail.id, body=text, to_all=True)),
    )


def _forward(scene: Scene) -> Draft:
    mail, text = _mail(scene), scene.words.phrase()
    other = next(person for person in scene.people(2) if person != mail.sender)
    return Draft.with_finish(
        {"name": mail.sender, "topic": mail.subject, "other": other, "phrase": f'"{text}"'},
        find_mail(mail),
        *with_agreement(call("outlook.forward", id=mail.id, to=other, body=text)),
    )


def _forward_if(scene: Scene) -> Draft:
    """In half of the tasks somebody else wrote the mail; the refusal must name them."""
    named, other, third = scene.people(3)
    topic, is_feasible = scene.words.topic(), scene.rng.random() < 0.5
    sender = named if is_feasible else third
    mail = scene.add_mail(sender, topic, scene.words.letter(AMOUNTS, scene.words.digits()))
    scene.add_mail(named, scene.words.similar(topic), scene.words.letter(AMOUNTS, scene.words.digits()))
    slots = {"name": named, "topic": topic, "other": other}
    look = call("outlook.search", subject=topic)
    if not is_feasible:
        return Draft.with_refusal(slots, sender, look)
    return Draft.with_finish(slots, look, *with_agreement(call("outlook.forward", id=mail.id, to=other)))


def _send_number(scene: Scene) -> Draft:
    sender, other = scene.people(2)
    topic, number, subject = scene.words.topic(), scene.words.digits(), scene.rng.choice(_SUBJECTS)
    mail = scene.add_mail(sender, topic, scene.words.letter(AMOUNTS, number))
    add_lookalikes(scene, mail, AMOUNTS)
    return Draft.with_finish(
        {"name": sender, "topic": topic, "other": other, "subject": f'"{subject}"'},
        *open_mail(mail),
        *with_agreement(call("outlook.send", to=other, subject=subject, body=number)),
    )


def _draft(scene: Scene) -> Draft:
    sender, other = scene.people(2)
    topic, subject, text = scene.words.topic(), scene.rng.choice(_SUBJECTS), scene.words.phrase()
    scene.add_mail(sender, topic, scene.words.letter(REMARKS))
    scene.add_mail(other, scene.words.similar(topic), scene.words.letter(REMARKS))
    return Draft.with_finish(
        {"topic": topic, "subject": f'"{subject}"', "phrase": f'"{text}"'},
        call("outlook.search", subject=topic),
        call("outlook.draft", to=sender, subject=subject, body=text),
    )


def _send_draft(scene: Scene) -> Draft:
    """Two drafts with one subject to two people. Searches do not show recipients, so one draft must be read."""
    people, topic = scene.people(2), scene.words.topic()
    drafts = []
    for person, subject in ((people[0], topic), (people[1], topic), (people[0], scene.words.similar(topic))):
        mail = scene.add_mail(
            scene.workspace.owner, subject, scene.words.letter(REMARKS), is_read=True, folder="drafts"
        )
        drafts.append(replace(mail, to=(person,)))
    scene.add(*drafts)
    newest = max(drafts[:2], key=lambda mail: (mail.at, mail.id))
    return Draft.with_finish(
        {"name": people[0], "topic": topic},
        call("outlook.search", subject=topic, folder="drafts"),
        call("outlook.read", id=newest.id),
        *with_agreement(call("outlook.send", draft=drafts[0].id)),
    )


def _attachment(scene: Scene) -> Draft:
    """The mail asks for a file by name; the drive has lookalikes."""
    sender, topic = scene.person(), scene.words.topic()
    name = f"{scene.words.topic()}.txt"
    asks = (f'could you send me "{name}"?', f'i need the file "{name}"', f'please mail "{name}" to me')
    mail = scene.add_mail(sender, topic, scene.words.letter(asks))
    add_lookalikes(scene, mail, REMARKS)
    folder, further = two_folders(scene)
    file = scene.add_file(f"/{folder}/{name}", PlainText(scene.words.letter(AMOUNTS, scene.words.digits())))
    alike = scene.words.similar(name.removesuffix(".txt"))
    for other in (f"/{folder}/{alike}.txt", f"/{further}/old {name}"):
        scene.add_file(other, PlainText(scene.words.letter(AMOUNTS, scene.words.digits())))
    subject, text = scene.rng.choice(_SUBJECTS), scene.words.phrase()
    return Draft.with_finish(
        {"name": sender, "topic": topic, "subject": f'"{subject}"', "phrase": f'"{text}"'},
        *open_mail(mail),
        find_file(name),
        *with_agreement(call("outlook.send", to=sender, subject=subject, body=text, attachments=file.id)),
    )


def _answer_question(scene: Scene) -> Draft:
    asker, *people = scene.people(4)
    (topic, about), number = scene.words.topics(2), scene.words.digits()
    asks = (
        f"which number do we have for the {about} by now?",
        f"what is the latest number on the {about}?",
        f"i lost the mails on the {about}; what number is it now?",
    )
    question = scene.add_mail(asker, topic, scene.words.letter(asks))
    add_lookalikes(scene, question, REMARKS)
    mails = add_number_thread(scene, about, people, number, count=scene.rng.randint(2, 4))
    scene.add_mail(people[0], scene.words.similar(about), scene.words.letter(CORRECTIONS, scene.words.digits()))
    return Draft.with_finish(
        {"name": asker, "topic": topic},
        *open_mail(question),
        call("outlook.search", subject=about),
        *(call("outlook.read", id=mail.id) for mail in reversed(mails)),
        *with_agreement(call("outlook.reply", id=question.id, body=number)),
    )


def _reply_each(scene: Scene) -> Draft:
    """Replies to two unread mails; a read one and one on a similar subject get no reply."""
    people, topic, text = scene.people(4), scene.words.topic(), scene.words.phrase()
    mails = [scene.add_mail(person, topic, scene.words.letter(REMARKS)) for person in people[:2]]
    scene.add_mail(people[2], topic, scene.words.letter(REMARKS), is_read=True)
    scene.add_mail(people[3], scene.words.similar(topic), scene.words.letter(REMARKS))
    replies = [call("outlook.reply", id=mail.id, body=text) for mail in mails]
    return Draft.with_finish(
        {"topic": topic, "phrase": f'"{text}"'},
        call("outlook.search", subject=topic, is_unread=True),
        *(step for reply in replies for step in with_agreement(reply)),
    )


FAMILIES = (
    Family("mail_reply", 2, ("outlook",), _reply),
    Family("mail_reply_all", 2, ("outlook",), _reply_all),
    Family("mail_forward", 2, ("outlook",), _forward),
    Family("mail_forward_if", 2, ("outlook",), _forward_if),
    Family("mail_send_number", 2, ("outlook",), _send_number),
    Family("mail_draft", 1, ("outlook",), _draft),
    Family("mail_send_draft", 2, ("outlook",), _send_draft),
    Family("mail_attachment", 3, ("outlook", "sharepoint"), _attachment),
    Family("mail_answer_question", 3, ("outlook",), _answer_question),
    Family("mail_reply_each", 3, ("outlook",), _reply_each),
)
