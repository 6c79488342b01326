"""Tasks in channels."""

from upturn.environments.office.generation import (
    AMOUNTS,
    Draft,
    Family,
    Scene,
    call,
    members_of,
    message_about,
    new_channels,
    post,
)
from upturn.environments.office.state import Channel, Chat

_REMARKS = ("i will look into it", "no news", "that can wait", "let me check", "more tomorrow", "all fine there")


def _last_writer(scene: Scene) -> Draft:
    """The topic comes up in two channels, in turns."""
    channel, other = new_channels(scene)
    topic, writer = scene.words.topic(), members_of(scene, channel)[0]
    writers = [*scene.rng.sample(members_of(scene, channel), scene.rng.randint(1, 3)), writer]
    further = [member for member in members_of(scene, other) if member != writer][:2]
    conversations = [*(channel for _ in writers), *(other for _ in further)]
    scene.rng.shuffle(conversations)
    for conversation in conversations:
        sender = (writers if conversation is channel else further).pop(0)
        scene.add_post(
            conversation, sender, message_about(scene, topic, scene.words.digits(), (*AMOUNTS, *_REMARKS))
        )
    return Draft.with_answer(
        {"team": channel.team, "topic": topic},
        writer,
        call("teams.list_channels", name=channel.team),
        call("teams.search_chat", query=topic, place=channel.id),
    )


def _post(scene: Scene) -> Draft:
    channel, text = new_channels(scene)[0], scene.words.phrase()
    return Draft.with_finish(
        {"team": channel.team, "phrase": f'"{text}"'},
        call("teams.list_channels", name=channel.team),
        *post(channel, text),
    )


def _post_number(scene: Scene) -> Draft:
    """A number goes from a chat into a channel."""
    channel, other = new_channels(scene)
    name = scene.person()
    topic, number = scene.words.topic(), scene.words.digits()
    bystander = next(member for member in members_of(scene, other) if member != name)
    chat = scene.add_chat(name)
    posts: list[tuple[Chat | Channel, str, str, str]] = [
        (chat, name, topic, number),
        (chat, name, scene.words.similar(topic), scene.words.digits()),
        (other, bystander, topic, scene.words.digits()),
    ]
    scene.rng.shuffle(posts)
    for conversation, sender, about, digits in posts:
        scene.add_post(conversation, sender, message_about(scene, about, digits))
    return Draft.with_finish(
        {"name": name, "topic": topic, "team": channel.team},
        call("teams.search_chat", query=topic, sender=name),
        call("teams.list_channels", name=channel.team),
        *post(channel, number),
    )


def _sum(scene: Scene) -> Draft:
    """The sum of two people's numbers; lookalikes are a third person's number and one for a similar topic."""
    channel, other = new_channels(scene)
    topic, (first, second, third) = scene.words.topic(), members_of(scene, other)[:3]
    numbers = [scene.rng.randint(100, 999) for _ in range(3)]
    posts = [(sender, topic, str(number)) for sender, number in zip((first, second, third), numbers, strict=True)]
    posts.append((first, scene.words.similar(topic), scene.words.digits()))
    scene.rng.shuffle(posts)
    for sender, about, number in posts:
        scene.add_post(other, sender, message_about(scene, about, number))
    return Draft.with_finish(
        {"first": first, "second": second, "topic": topic, "team": channel.team},
        call("teams.search_chat", query=topic),
        call("teams.list_channels", name=channel.team),
        *post(channel, str(numbers[0] + numbers[1])),
    )


def _add_member(scene: Scene) -> Draft:
    channel = new_channels(scene)[0]
    people = [person for person in scene.people(12) if person not in channel.members][: scene.rng.randint(1, 2)]
    return Draft.with_finish(
        {"people": " and ".join(people), "team": channel.team},
        call("teams.list_channels", name=channel.team),
        call("teams.add_members", place=channel.id, people=",".join(people)),
    )


FAMILIES = (
    Family("channel_last_writer", 1, ("teams",), _last_writer),
    Family("channel_post", 2, ("teams",), _post),
    Family("channel_post_number", 2, ("teams",), _post_number),
    Family("channel_add", 1, ("teams",), _add_member),
    Family("channel_post_sum", 3, ("teams",), _sum),
)
