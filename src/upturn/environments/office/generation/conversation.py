"""Conversations of a scene: mails with replies and lookalikes, and messages in chats and channels."""

from collections.abc import Iterator, Sequence

from upturn.environments.office.generation.family import call, with_agreement
from upturn.environments.office.generation.scene import Scene
from upturn.environments.office.generation.wording import AMOUNTS, CORRECTIONS, REMARKS, TEAMS
from upturn.environments.office.state import Channel, Mail, add_minutes
from upturn.records import Action

_ABOUT = (
    "about the {topic}: {said}",
    "{topic}? {said}",
    "for the {topic} {said}",
    "{topic}: {said}",
    "{said} ({topic})",
)


def find_mail(mail: Mail) -> Action:
    """Searches for the mail by sender and subject."""
    return call("outlook.search", sender=mail.sender, subject=mail.subject)


def open_mail(mail: Mail) -> tuple[Action, Action]:
    """Searches for the mail and reads it."""
    return find_mail(mail), call("outlook.read", id=mail.id)


def add_lookalikes(scene: Scene, mail: Mail, facts: tuple[str, ...], *, is_read: bool = False) -> None:
    """Adds two mails that resemble this one: one with the same sender and a similar subject, one with another
    sender and the same subject. They state one of these facts with other numbers."""
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


def add_number_thread(scene: Scene, subject: str, people: Sequence[str], number: str, *, count: int) -> list[Mail]:
    """A conversation of ``count`` mails in which ``number`` is the last number, in a mail at a random position.

    An earlier mail states another number, unless there is none. Returns the mail with the number and all later
    ones, oldest first.
    """
    rng, words = scene.rng, scene.words
    position = rng.randrange(count)
    outdated = rng.randrange(position) if position else None
    turns = []
    for index in range(count):
        if index == position:
            text = words.letter(CORRECTIONS if position else AMOUNTS, number)
        elif index == outdated:
            text = words.letter(AMOUNTS, words.digits())
        else:
            text = words.letter(REMARKS)
        writers = people if index in (0, position, outdated) else (*people, scene.workspace.owner)
        turns.append((rng.choice(writers), text))
    return add_thread(scene, subject, turns)[position:]


def message_about(scene: Scene, topic: str, number: str, facts: tuple[str, ...] = AMOUNTS) -> str:
    """A message that states one of these facts about the topic; ``{n}`` is the number."""
    return scene.rng.choice(_ABOUT).format(topic=topic, said=scene.rng.choice(facts).format(n=number))


def any_channel(scene: Scene) -> Channel:
    """One of the owner's channels."""
    return scene.rng.choice(list(scene.workspace.channels.values()))


def post(channel: Channel, text: str) -> Iterator[Action]:
    """Posts to a channel after the user has agreed."""
    return with_agreement(call("teams.post_to_channel", channel=channel.id, text=text))


def new_channels(scene: Scene) -> list[Channel]:
    """Two channels of teams that no base profile has, so the agent must look up their ids."""
    channels = []
    for team in scene.rng.sample(TEAMS, 2):
        members = tuple(sorted((scene.workspace.owner, *scene.people(5))))
        channels.append(Channel(scene.id("c"), team, "general", members))
    scene.add(*channels)
    return channels


def send_by_chat_id(scene: Scene, other: str, text: str) -> tuple[Action, ...]:
    """The message addressed by the id of the existing chat; empty if there is no chat yet."""
    members = tuple(sorted((other, scene.workspace.owner)))
    ids = [chat.id for chat in scene.workspace.chats.values() if chat.members == members]
    return tuple(call("teams.send_message", chat=id_, text=text) for id_ in ids)


def members_of(scene: Scene, channel: Channel) -> list[str]:
    """All members but the owner, shuffled."""
    members = [member for member in channel.members if member != scene.workspace.owner]
    scene.rng.shuffle(members)
    return members
