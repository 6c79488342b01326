"""Related mails of a scene: conversations, and lookalikes of a mail."""

from collections.abc import Sequence

from upturn.environments.office.generation.family import call
from upturn.environments.office.generation.scene import Scene
from upturn.environments.office.state import Mail, add_minutes
from upturn.records import Action


def find_mail(mail: Mail) -> Action:
    """Searches for it by sender and subject."""
    return call("outlook.search", sender=mail.sender, subject=mail.subject)


def open_mail(mail: Mail) -> tuple[Action, Action]:
    """Searches for it and reads it."""
    return find_mail(mail), call("outlook.read", id=mail.id)


def add_lookalikes(scene: Scene, mail: Mail, facts: tuple[str, ...], *, is_read: bool = False) -> None:
    """Adds mails that are easy to confuse with this one: one by the sender under a similar subject, and one by
    somebody else under the same subject. They state one of these facts with other numbers."""
    other = next(person for person in scene.people(2) if person != mail.sender)
    for sender, subject in ((mail.sender, scene.words.similar(mail.subject)), (other, mail.subject)):
        scene.add_mail(sender, subject, scene.words.letter(facts, scene.words.digits()), is_read=is_read)


def add_thread(scene: Scene, subject: str, turns: Sequence[tuple[str, str]]) -> list[Mail]:
    """A conversation with the owner from (sender, body) turns, oldest first; about half of the mails are read."""
    rng, owner = scene.rng, scene.workspace.owner
    at = f"2026-02-{rng.randint(16, 22)} {rng.randint(8, 17):02d}:{rng.randint(10, 59)}"
    mails: list[Mail] = []
    for sender, body in turns:
        mine = sender == owner
        mail = Mail(
            id=scene.id("m"),
            folder="sent" if mine else "inbox",
            sender=sender,
            to=(mails[-1].sender if mine and mails else owner,),
            subject=f"re: {subject}" if mails else subject,
            body=body,
            at=at,
            thread=mails[0].id if mails else "",
            is_read=mine or rng.random() < 0.5,
        )
        scene.add(mail)
        mails.append(mail)
        at = add_minutes(at, minutes=rng.randint(40, 1_200))
    return mails
