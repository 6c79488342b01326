"""Tasks in channels of teams."""

from upturn.environments.office.generation import (
    AMOUNTS,
    FINISH,
    Draft,
    Family,
    Scene,
    agreed,
    answer,
    call,
    digits,
    members_of,
    near,
    new_channels,
    phrase,
    says,
    topics,
)

_REMARKS = ("i will look into it", "no news", "that can wait", "let me check", "more tomorrow", "all fine there")


def _last_writer(scene: Scene) -> Draft:
    """The same is spoken of in two channels; in the other one later."""
    channel, other = new_channels(scene)
    topic, writer = topics(scene.rng, 1)[0], members_of(scene, channel)[0]
    writers = [*scene.rng.sample(members_of(scene, channel), scene.rng.randint(1, 3)), writer]
    further = [each for each in members_of(scene, other) if each != writer][:2]
    for where, who in (*((channel, each) for each in writers), *((other, each) for each in further)):
        scene.add_post(where, who, says(scene, topic, digits(scene.rng), (*AMOUNTS, *_REMARKS)))
    return Draft(
        {"team": channel.team, "topic": topic},
        (
            call("teams.list_channels", name=channel.team),
            call("teams.search_chat", query=topic, place=channel.id),
            answer(writer),
        ),
        answer=writer,
    )


def _post(scene: Scene) -> Draft:
    channel, text = new_channels(scene)[0], phrase(scene.rng)
    return Draft(
        {"team": channel.team, "phrase": f'"{text}"'},
        (
            call("teams.list_channels", name=channel.team),
            *agreed(call("teams.post_to_channel", channel=channel.id, text=text)),
            FINISH,
        ),
    )


def _post_number(scene: Scene) -> Draft:
    """From a chat into a channel."""
    channel, other = new_channels(scene)
    name = scene.people(1)[0]
    topic, number = topics(scene.rng, 1)[0], digits(scene.rng)
    scene.add_post(scene.add_chat(name), name, says(scene, topic, number))
    scene.add_post(scene.add_chat(name), name, says(scene, near(scene.rng, topic), digits(scene.rng)))
    bystander = next(each for each in members_of(scene, other) if each != name)
    scene.add_post(other, bystander, says(scene, topic, digits(scene.rng)))
    return Draft(
        {"name": name, "topic": topic, "team": channel.team},
        (
            call("teams.search_chat", query=topic, sender=name),
            call("teams.list_channels", name=channel.team),
            *agreed(call("teams.post_to_channel", channel=channel.id, text=number)),
            FINISH,
        ),
    )


def _sum(scene: Scene) -> Draft:
    """Of two people's numbers; a third one has given one too, and one of the two another for something near."""
    channel, other = new_channels(scene)
    topic, (first, second, third) = topics(scene.rng, 1)[0], members_of(scene, other)[:3]
    numbers = [scene.rng.randint(100, 999) for _ in range(3)]
    said = [(who, topic, str(number)) for who, number in zip((first, second, third), numbers, strict=True)]
    said.append((first, near(scene.rng, topic), digits(scene.rng)))
    scene.rng.shuffle(said)
    for who, about, number in said:
        scene.add_post(other, who, says(scene, about, number))
    return Draft(
        {"first": first, "second": second, "topic": topic, "team": channel.team},
        (
            call("teams.search_chat", query=topic),
            call("teams.list_channels", name=channel.team),
            *agreed(call("teams.post_to_channel", channel=channel.id, text=str(numbers[0] + numbers[1]))),
            FINISH,
        ),
    )


def _add_member(scene: Scene) -> Draft:
    channel = new_channels(scene)[0]
    people = [each for each in scene.people(12) if each not in channel.members][: scene.rng.randint(1, 2)]
    return Draft(
        {"people": " and ".join(people), "team": channel.team},
        (
            call("teams.list_channels", name=channel.team),
            call("teams.add_members", place=channel.id, people=",".join(people)),
            FINISH,
        ),
    )


FAMILIES = (
    Family(
        "channel_last_writer",
        1,
        ("teams",),
        _last_writer,
        templates=(
            "who wrote last about the {topic} in the channel of team {team}? give the id, such as ann.lee",
            "in team {team}'s channel, whose message on the {topic} is the newest? id only",
            "tell me the id of the last one to post about the {topic} in the {team} channel",
            "the channel of {team}: who mentioned the {topic} last there? just the id",
            "look up who had the last word on the {topic} in the channel of team {team}, by id",
            "i want to know who posted last on the {topic} for team {team}; the id is enough",
            "find the newest post about the {topic} in {team}'s channel and give me its writer's id",
            "who is the latest to write on the {topic} in the {team} channel? answer with the id",
            "name by id the last person that wrote about the {topic} in the channel of {team}",
            "of those who wrote about the {topic} in team {team}'s channel, who was last? only the id",
        ),
        heldout=(
            "check the {team} channel: who was the last to bring up the {topic}? the id will do",
            "give me the id of whoever posted most recently on the {topic} in the channel of {team}",
            "from whom is the last message on the {topic} in team {team}'s channel? as an id like ann.lee",
            "team {team} talks about the {topic} in its channel; who wrote last? id only",
        ),
    ),
    Family(
        "channel_post",
        2,
        ("teams",),
        _post,
        templates=(
            "post {phrase} to the channel of team {team}",
            "write {phrase} in the {team} channel",
            "let team {team} read {phrase} in its channel",
            "send {phrase} to everybody in the channel of {team}",
            "put the message {phrase} into team {team}'s channel",
            "tell the {team} team {phrase}, by a post in their channel",
            "the channel of {team} should get this post from me: {phrase}",
            "in the channel that belongs to {team}, post {phrase}",
            "find the {team} channel and post {phrase} there",
            "i want {phrase} posted in the channel of the team {team}",
        ),
        heldout=(
            "make a post in team {team}'s channel that says {phrase}",
            "all of {team} should see {phrase}: post it to their channel",
            "say {phrase} in the channel of {team}",
            "a post for the {team} channel: {phrase}",
        ),
    ),
    Family(
        "channel_post_number",
        2,
        ("teams",),
        _post_number,
        templates=(
            "post the number that {name} gave for the {topic} in our chat to the channel of team {team}, just the "
            "number",
            "{name} wrote me the number for the {topic}; put only that number into the {team} channel",
            "take the {topic} number from my chat with {name} and post it, without any words, in team {team}'s "
            "channel",
            "team {team} needs the number {name} has for the {topic}: post it alone in their channel; it is in "
            "our chat",
            "look up the number for the {topic} in what {name} wrote to me and post the bare number for {team}",
            "let the channel of {team} have the number for the {topic} from {name}'s chat message, nothing more",
            "in the {team} channel, post nothing but the number {name} told me in the chat for the {topic}",
            "which number did {name} chat me for the {topic}? post it as it is to the channel of {team}",
            "find {name}'s message on the {topic} and post just its number to team {team}'s channel",
            "share the {topic} number, which {name} wrote in our chat, with team {team}: a channel post of only "
            "the number",
        ),
        heldout=(
            "the number {name} gave me by chat for the {topic} should stand alone in a post to the {team} channel",
            "post to {team}'s channel the number, and only it, from {name}'s chat message about the {topic}",
            "get the {topic} number out of the chat with {name} and into the channel of team {team}, digits only",
            "for team {team}: the bare number on the {topic} that {name} chatted to me, as a post in their channel",
        ),
    ),
    Family(
        "channel_add",
        1,
        ("teams",),
        _add_member,
        templates=(
            "add {people} to the channel of team {team}",
            "make {people} part of the {team} channel",
            "{people} should be in team {team}'s channel; add them",
            "let {people} into the channel of {team}",
            "put {people} into the {team} channel in teams",
            "the channel of team {team} needs {people} in it too",
            "give {people} access to the {team} channel by adding them to it",
            "find the channel of {team} and add {people}",
            "add to the members of team {team}'s channel: {people}",
            "i want {people} to be able to read the {team} channel, so add them",
        ),
        heldout=(
            "{people} should belong to the {team} channel from now on",
            "extend the channel of team {team} by {people}",
            "see that {people} can read along in {team}'s channel: add them there",
            "membership in the {team} channel for {people}, from me",
        ),
    ),
    Family(
        "channel_post_sum",
        3,
        ("teams",),
        _sum,
        templates=(
            "add up the numbers that {first} and {second} posted for the {topic} and post just the sum to the "
            "channel of team {team}",
            "post to the {team} channel the sum, and nothing else, of what {first} and {second} have for the "
            "{topic} in teams",
            "{first} and {second} each gave a number for the {topic} in a channel; put only their sum into team "
            "{team}'s channel",
            "look up in teams the {topic} numbers of {first} and {second}, add them and post the bare sum for "
            "team {team}",
            "team {team} wants to know what the numbers of {first} and {second} for the {topic} make together: "
            "post just that in their channel",
            "what do {first}'s and {second}'s numbers for the {topic} come to? post the sum alone to the channel "
            "of {team}",
            "sum the numbers by {first} and by {second} on the {topic}, as they posted them, and write the sum, "
            "no words, in the {team} channel",
            "find what {first} and {second} wrote as numbers for the {topic} in teams; the two added are a post "
            "for {team}'s channel, without words",
            "take {first}'s number and {second}'s number for the {topic} from their posts and post only the total "
            "in the channel of team {team}",
            "the channel of {team} should get a post with just the sum of the {topic} numbers that {first} and "
            "{second} posted",
        ),
        heldout=(
            "for team {team}'s channel: the total of {first}'s and {second}'s posted numbers for the {topic}, "
            "digits only",
            "put together the {topic} numbers from {first} and from {second} in teams and post the bare total to "
            "{team}'s channel",
            "in the {team} channel, post the sum of the two numbers {first} and {second} gave for the {topic}, "
            "and only it",
            "add {first}'s posted number for the {topic} to {second}'s; the result alone goes to the channel of "
            "team {team}",
        ),
    ),
)
