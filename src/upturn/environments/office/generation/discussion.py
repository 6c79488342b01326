"""Channels and chats of a scene, and the messages in them."""

from collections.abc import Iterator

from upturn.environments.office.generation.family import call, with_agreement
from upturn.environments.office.generation.scene import Scene
from upturn.environments.office.generation.wording import AMOUNTS, TEAMS
from upturn.environments.office.state import Channel
from upturn.records import Action

_ABOUT = (
    "about the {topic}: {said}",
    "{topic}? {said}",
    "for the {topic} {said}",
    "{topic}: {said}",
    "{said} ({topic})",
)


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
    """Two channels of teams that no base profile has, so their ids have to be looked up."""
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
