"""Tasks that sort the mailbox: flags, folders, rules and deletions."""

from dataclasses import replace

from upturn.environments.office.generation import (
    AMOUNTS,
    FOLDERS,
    REMARKS,
    Draft,
    Family,
    Scene,
    add_lookalikes,
    call,
    with_agreement,
)
from upturn.environments.office.state import Mail

_SITES = ("paperboat", "greenleaf", "daybreak", "cartwheel", "lighthouse", "sandcastle", "waterfall", "starling")
"""Senders of newsletters."""


def _ids(mails: list[Mail]) -> str:
    """The mails' ids in search order, newest first."""
    return ",".join(mail.id for mail in sorted(mails, key=lambda mail: (mail.at, mail.id), reverse=True))


def _some(scene: Scene, sender: str, topic: str, count: int, *, is_read: bool = False) -> list[Mail]:
    """Adds ``count`` mails of one sender under one subject."""
    return [scene.add_mail(sender, topic, scene.words.letter(REMARKS), is_read=is_read) for _ in range(count)]


def _flag(scene: Scene) -> Draft:
    sender, topic = scene.person(), scene.words.topic()
    mail = scene.add_mail(sender, topic, scene.words.letter(AMOUNTS, scene.words.digits()))
    add_lookalikes(scene, mail, AMOUNTS)
    return Draft.with_finish(
        {"name": sender, "topic": topic},
        call("outlook.search", sender=sender, subject=topic),
        call("outlook.flag", ids=mail.id),
    )


def _move(scene: Scene) -> Draft:
    sender, topic, folder = scene.person(), scene.words.topic(), scene.rng.choice(FOLDERS)
    mails = _some(scene, sender, topic, scene.rng.randint(1, 4))
    add_lookalikes(scene, mails[0], REMARKS)
    return Draft.with_finish(
        {"name": sender, "topic": topic, "folder": folder},
        call("outlook.search", sender=sender, subject=topic),
        call("outlook.move", ids=_ids(mails), folder=folder),
    )


def _unread(scene: Scene) -> Draft:
    sender, topic = scene.person(), scene.words.topic()
    mails = _some(scene, sender, topic, scene.rng.randint(1, 3), is_read=True)
    add_lookalikes(scene, mails[0], REMARKS, is_read=True)
    return Draft.with_finish(
        {"name": sender, "topic": topic},
        call("outlook.search", sender=sender, subject=topic),
        call("outlook.mark", ids=_ids(mails), as_="unread"),
    )


def _rule(scene: Scene) -> Draft:
    sender, other = scene.people(2)
    topic, folder = scene.words.topic(), scene.rng.choice(FOLDERS)
    scene.add_mail(sender, topic, scene.words.letter(AMOUNTS, scene.words.digits()))
    scene.add_mail(other, scene.words.similar(topic), scene.words.letter(AMOUNTS, scene.words.digits()))
    return Draft.with_finish(
        {"topic": topic, "folder": folder},
        call("outlook.search", subject=topic),
        call("outlook.create_rule", folder=folder, sender=sender),
    )


def _newsletter(scene: Scene) -> Draft:
    site = scene.rng.choice(_SITES)
    sender = f"news@{site}.example"
    mails = []
    for topic in scene.words.topics(scene.rng.randint(2, 4)):
        mail = scene.add_mail(sender, topic, scene.words.letter(REMARKS))
        mails.append(replace(mail, folder=scene.rng.choice(("inbox", "archive"))))
    scene.add(*mails)
    scene.add_mail(f"orders@{site}.example", scene.words.topic(), scene.words.letter(AMOUNTS, scene.words.digits()))
    scene.add_mail(scene.person(), f"{site} newsletter", scene.words.letter(REMARKS))
    return Draft.with_finish(
        {"sender": sender},
        call("outlook.search", sender=sender),
        *with_agreement(call("outlook.delete", ids=_ids(mails))),
    )


def _by_amount(scene: Scene) -> Draft:
    sender, topic, folder = scene.person(), scene.words.topic(), scene.rng.choice(FOLDERS)
    limit = 50 * scene.rng.randint(5, 15)
    count = scene.rng.randint(3, 4)
    above = scene.rng.randint(1, count - 1)
    mails = []
    for index in range(count):
        number = limit + scene.rng.randint(10, 150) * (1 if index < above else -1)
        mails.append(scene.add_mail(sender, topic, scene.words.letter(AMOUNTS, number)))
    add_lookalikes(scene, mails[0], AMOUNTS)
    return Draft.with_finish(
        {"name": sender, "topic": topic, "folder": folder, "limit": str(limit)},
        call("outlook.search", sender=sender, subject=topic),
        *(call("outlook.read", id=mail.id) for mail in mails),
        call("outlook.move", ids=_ids(mails[:above]), folder=folder),
    )


def _tidy(scene: Scene) -> Draft:
    first, second, third, bystander = scene.people(4)
    topic, folder = scene.words.topic(), scene.rng.choice(FOLDERS)
    flagged, moved, deleted = (
        _some(scene, person, topic, scene.rng.randint(1, 2)) for person in (first, second, third)
    )
    scene.add_mail(bystander, topic, scene.words.letter(REMARKS))
    scene.add_mail(third, scene.words.similar(topic), scene.words.letter(REMARKS))
    return Draft.with_finish(
        {"first": first, "second": second, "third": third, "topic": topic, "folder": folder},
        call("outlook.search", subject=topic),
        call("outlook.flag", ids=_ids(flagged)),
        call("outlook.move", ids=_ids(moved), folder=folder),
        *with_agreement(call("outlook.delete", ids=_ids(deleted))),
    )


FAMILIES = (
    Family("mail_flag", 1, ("outlook",), _flag),
    Family("mail_move", 1, ("outlook",), _move),
    Family("mail_unread", 1, ("outlook",), _unread),
    Family("mail_rule", 1, ("outlook",), _rule),
    Family("mail_newsletter", 2, ("outlook",), _newsletter),
    Family("mail_by_amount", 3, ("outlook",), _by_amount),
    Family("mail_tidy", 3, ("outlook",), _tidy),
)
