"""Tasks in chats and channels."""

from upturn.environments.suite.correspondence import add_lookalikes
from upturn.environments.suite.family import FINISH, Draft, Family, agreed, answer, call
from upturn.environments.suite.scene import Scene
from upturn.environments.suite.wording import AMOUNTS, TEAMS, digits, letter, near, phrase, titles, topics
from upturn.environments.workspace.chat import Channel, Chat
from upturn.environments.workspace.clock import later
from upturn.records import Action

_ABOUT = (
    "about the {topic}: {said}",
    "{topic}? {said}",
    "for the {topic} {said}",
    "{topic}: {said}",
    "{said} ({topic})",
)
_ASKS = (
    "does anybody know who has the {topic}?",
    "has somebody seen the {topic}?",
    "who can help me with the {topic}?",
    "i am still waiting for the {topic}, any news?",
)
_REMARKS = ("i will look into it", "no news", "that can wait", "let me check", "more tomorrow", "all fine there")
_MINUTES = (30, 45, 60)


def _says(scene: Scene, topic: str, number: str) -> str:
    return scene.rng.choice(_ABOUT).format(topic=topic, said=scene.rng.choice(AMOUNTS).format(n=number))


def _channel(scene: Scene) -> Channel:
    """One of the owner's."""
    return scene.rng.choice(list(scene.workspace.channels.values()))


def _new_channels(scene: Scene) -> list[Channel]:
    """Two, of teams that base profiles do not have: their ids have to be looked up."""
    found = []
    for team in scene.rng.sample(TEAMS, 2):
        members = tuple(sorted((scene.workspace.owner, *scene.people(5))))
        found.append(Channel(scene.id("c"), team, "general", members))
    scene.add(*found)
    return found


def _members(scene: Scene, channel: Channel) -> list[str]:
    """All but the owner, in any order."""
    found = [each for each in channel.members if each != scene.workspace.owner]
    scene.rng.shuffle(found)
    return found


def _number(scene: Scene) -> Draft:
    channel = _channel(scene)
    name, other = _members(scene, channel)[:2]
    topic, number = topics(scene.rng, 1)[0], digits(scene.rng)
    place: Chat | Channel = scene.rng.choice((channel, scene.add_chat(name)))
    said = [(place, name, topic, number), (channel, other, topic, digits(scene.rng))]
    said.append((channel, name, near(scene.rng, topic), digits(scene.rng)))
    scene.rng.shuffle(said)
    for where, who, about, what in said:
        scene.add_post(where, who, _says(scene, about, what))
    return Draft(
        {"name": name, "topic": topic},
        (call("teams.search_chat", query=topic, sender=name), answer(number)),
        answer=number,
    )


def _last_writer(scene: Scene) -> Draft:
    """The same is spoken of in two channels; in the other one later."""
    channel, other = _new_channels(scene)
    topic, writer = topics(scene.rng, 1)[0], _members(scene, channel)[0]
    writers = [*scene.rng.sample(_members(scene, channel), scene.rng.randint(1, 3)), writer]
    further = [each for each in _members(scene, other) if each != writer][:2]
    for where, who in (*((channel, each) for each in writers), *((other, each) for each in further)):
        remark = scene.rng.choice((*AMOUNTS, *_REMARKS)).format(n=digits(scene.rng))
        scene.add_post(where, who, scene.rng.choice(_ABOUT).format(topic=topic, said=remark))
    return Draft(
        {"team": channel.team, "topic": topic},
        (
            call("teams.list_channels"),
            call("teams.search_chat", query=topic, place=channel.id),
            answer(writer),
        ),
        answer=writer,
    )


def _message(scene: Scene) -> Draft:
    """To whoever asked in a channel."""
    channel, other = _channel(scene), _channel(scene)
    asker, bystander = _members(scene, channel)[:2]
    topic, text = topics(scene.rng, 1)[0], phrase(scene.rng)
    scene.add_post(channel, asker, scene.rng.choice(_ASKS).format(topic=topic))
    for where, who in ((channel, bystander), (other, _members(scene, other)[0])):
        scene.add_post(where, who, scene.rng.choice(_ASKS).format(topic=near(scene.rng, topic)))
    return Draft(
        {"topic": topic, "phrase": f'"{text}"'},
        (
            call("teams.search_chat", query=topic),
            *agreed(call("teams.send_message", to=asker, text=text)),
            FINISH,
        ),
        also=_in_chat(scene, asker, text),
    )


def _in_chat(scene: Scene, other: str, text: str) -> tuple[Action, ...]:
    """The same message by the chat's id, where there is a chat already."""
    members = tuple(sorted((other, scene.workspace.owner)))
    found = [each.id for each in scene.workspace.chats.values() if each.members == members]
    return tuple(call("teams.send_message", chat=id_, text=text) for id_ in found)


def _post(scene: Scene) -> Draft:
    channel, text = _new_channels(scene)[0], phrase(scene.rng)
    return Draft(
        {"team": channel.team, "phrase": f'"{text}"'},
        (
            call("teams.list_channels"),
            *agreed(call("teams.post_to_channel", channel=channel.id, text=text)),
            FINISH,
        ),
    )


def _post_number(scene: Scene) -> Draft:
    """From a chat into a channel."""
    channel, other = _new_channels(scene)
    name = scene.people(1)[0]
    topic, number = topics(scene.rng, 1)[0], digits(scene.rng)
    scene.add_post(scene.add_chat(name), name, _says(scene, topic, number))
    scene.add_post(scene.add_chat(name), name, _says(scene, near(scene.rng, topic), digits(scene.rng)))
    bystander = next(each for each in _members(scene, other) if each != name)
    scene.add_post(other, bystander, _says(scene, topic, digits(scene.rng)))
    return Draft(
        {"name": name, "topic": topic, "team": channel.team},
        (
            call("teams.search_chat", query=topic, sender=name),
            call("teams.list_channels"),
            *agreed(call("teams.post_to_channel", channel=channel.id, text=number)),
            FINISH,
        ),
    )


def _add_member(scene: Scene) -> Draft:
    channel = _new_channels(scene)[0]
    people = [each for each in scene.people(12) if each not in channel.members][: scene.rng.randint(1, 2)]
    return Draft(
        {"people": " and ".join(people), "team": channel.team},
        (
            call("teams.list_channels"),
            call("teams.add_members", place=channel.id, people=",".join(people)),
            FINISH,
        ),
    )


def _meeting(scene: Scene) -> Draft:
    """The first of three times at which the owner has nothing else."""
    name, day, minutes = scene.people(1)[0], scene.day(), scene.rng.choice(_MINUTES)
    topic, title, place = topics(scene.rng, 1)[0], titles(scene.rng, 1)[0], scene.rng.randrange(3)
    starts = [f"{day} {hour:02d}:00" for hour in sorted(scene.rng.sample(range(9, 17), 3))]
    for start in starts:
        scene.clear(start, later(start, minutes=minutes))
    for start in starts[:place]:
        begin = later(start, minutes=scene.rng.choice((0, 15)))
        scene.add_event(titles(scene.rng, 1)[0], begin, minutes=30, people=scene.people(1))
    offers = (
        "can we talk about the {topic} on {first}, {second} or {third}, for {minutes} minutes?",
        "let us speak about the {topic}: {first}, else {second} or {third}, it takes {minutes} minutes",
        "the {topic} needs {minutes} minutes of your time, {first} or {second} or {third}",
    )
    first, second, third = starts[0], starts[1][11:], starts[2][11:]
    text = scene.rng.choice(offers).format(topic=topic, first=first, second=second, third=third, minutes=minutes)
    scene.add_post(scene.add_chat(name), name, text)
    start = starts[place]
    end = later(start, minutes=minutes)
    return Draft(
        {"name": name, "topic": topic, "title": f'"{title}"'},
        (
            call("teams.search_chat", query=topic, sender=name),
            call("calendar.list", day=day),
            call("teams.create_meeting", title=title, start=start, end=end, people=name),
            FINISH,
        ),
    )


def _answer(scene: Scene) -> Draft:
    """A question in a chat whose answer is in a mail."""
    asker, sender = scene.people(2)
    topic, number = topics(scene.rng, 1)[0], digits(scene.rng)
    asks = (
        f"do you have the number for the {topic}? {sender} has mailed it to you",
        f"what did {sender} write you, which number for the {topic}?",
        f"{sender} said you got a mail with the number on the {topic}; what is it?",
    )
    scene.add_post(scene.add_chat(asker), asker, scene.rng.choice(asks))
    mail = scene.add_mail(sender, topic, letter(scene.rng, AMOUNTS, number))
    add_lookalikes(scene, mail, AMOUNTS)
    city = topic.rsplit(" ", 1)[1]
    return Draft(
        {"name": asker, "city": city},
        (
            call("teams.search_chat", query=city, sender=asker),
            call("outlook.search", sender=sender, subject=topic),
            call("outlook.read", id=mail.id),
            *agreed(call("teams.send_message", to=asker, text=number)),
            FINISH,
        ),
        also=_in_chat(scene, asker, number),
    )


FAMILIES = (
    Family(
        "chat_number",
        1,
        ("teams",),
        _number,
        templates=(
            "what number did {name} give for the {topic} in teams?",
            "find the chat message in which {name} says the number for the {topic} and tell me that number",
            "{name} wrote a number for the {topic} in a chat or channel; what is it?",
            "search the chats: which number has {name} for the {topic}?",
            "tell me the number {name} wrote about the {topic} in teams",
            "i need the number that {name} posted on the {topic}",
            "look in the chats and channels for {name}'s number on the {topic}",
            "by what {name} wrote in teams, what is the number for the {topic}?",
            "which number did {name} mention in teams for the {topic}?",
            "somewhere in teams {name} gives a number for the {topic}, tell me which",
        ),
        heldout=(
            "what is {name}'s number for the {topic}, as written in a chat or channel?",
            "check teams for the number {name} gave about the {topic}",
            "in the messages by {name}, find the number for the {topic}",
            "read me the {topic} number out of {name}'s messages in teams",
        ),
    ),
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
        "chat_message",
        2,
        ("teams",),
        _message,
        templates=(
            "write {phrase} in a chat to whoever asks for the {topic} in a channel",
            "somebody in a channel needs the {topic}: send them {phrase} as a chat message",
            "find out who is looking for the {topic} in teams and message them {phrase}",
            "send a chat message saying {phrase} to the one who asked about the {topic}",
            "the person that posted about the {topic} should get {phrase} from me, by chat and not in the channel",
            "see who wants the {topic}, then tell them {phrase} in a chat of our own",
            "message {phrase} to whoever wrote on the {topic} in a channel",
            "who asked for the {topic} in teams? chat {phrase} to them",
            "in private, by chat, answer the one asking for the {topic} with {phrase}",
            "somebody posted a question on the {topic}; write {phrase} to that person in a chat",
        ),
        heldout=(
            "look for the post about the {topic} and send its writer {phrase} in a chat",
            "my chat message to the person who needs the {topic} is {phrase}; send it",
            "let whoever is after the {topic} know {phrase}, in a chat with just them",
            "by chat, send {phrase} to the author of the post on the {topic}",
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
        "chat_meeting",
        2,
        ("teams", "calendar"),
        _meeting,
        templates=(
            "{name} offers three times in our chat to talk about the {topic}; make an online meeting {title} with "
            "{name} at the first one that is free in my calendar, as long as {name} says",
            "set up the online meeting on the {topic} that {name} asks for in the chat: call it {title}, invite "
            "{name}, take the first time offered at which i have nothing else",
            "see when {name} wants to talk about the {topic}, by our chat, and create the online meeting {title} "
            "with {name} at the earliest of those times at which i am not busy, as long as asked",
            "create {title}, an online meeting with {name}, at the first of the times {name} wrote for the "
            "{topic} at which my calendar is free, for the minutes {name} wants",
            "in teams {name} asks to speak about the {topic} and names some times; at the first where i have no "
            "event, create the online meeting {title} with {name}, as long as asked",
            "arrange the talk with {name} on the {topic}: online meeting {title}, first proposed time i can do by "
            "my calendar, length as {name} wrote in the chat",
            "look at {name}'s message on the {topic} and at my calendar, then create the online meeting {title} "
            "with {name} at the first proposed time that is free, of the proposed length",
            "{name} and i are to talk about the {topic}; of the times in {name}'s chat message use the first i am "
            "free at, for an online meeting {title} as long as it says",
            "answer {name}'s wish to talk about the {topic} with an online meeting {title} at the first time from "
            "the chat that does not collide with my calendar, and of the length given there",
            "for the {topic}, {name} suggests three times in teams. enter an online meeting {title} with {name} "
            "at the first of them i can do by my calendar, as long as {name} suggests",
        ),
        heldout=(
            "make {title}, an online meeting with {name} about the {topic}, at the first time from {name}'s chat "
            "message when i am not busy, and as long as the message says",
            "the chat with {name} has three times for the {topic}; my calendar decides: first free one, online "
            "meeting {title} with {name}, length as written",
            "find the times {name} proposes for the {topic} in teams and create the online meeting {title} with "
            "{name} at the first that suits my calendar, as long as {name} wants",
            "online meeting {title} with {name}: times and length are in {name}'s message on the {topic}; take "
            "the first of the times at which i have nothing in my calendar",
        ),
    ),
    Family(
        "chat_answer",
        3,
        ("teams", "outlook"),
        _answer,
        templates=(
            "{name} asks me about {city} in our chat; find the number in my mail and write {name} just that, in "
            "the chat",
            "answer {name}'s chat question on {city} with only the number, which is in my mail",
            "in teams {name} wants a number to do with {city}; look it up in the mail named there and send {name} "
            "the bare number by chat",
            "look what {name} asks in the chat about {city}, find the answer in my mail and send it to {name} in "
            "the chat, number only",
            "{name} needs a number on {city}, see our chat; it was mailed to me, so pass on the number alone by "
            "chat",
            "write {name} a chat message that is just the number asked for in the question about {city}; my mail "
            "has it",
            "reply in the chat to {name}'s question on {city}: one number from my mail, no words",
            "find {name}'s message about {city} in teams, get the number it asks for from my mail and chat it "
            "back, bare",
            "there is a question from {name} on {city} in our chat; the answer, a number, is in my mail; send "
            "only it to {name} in the chat",
            "give {name} in teams the number that the chat message on {city} asks for, as the mail has it, and "
            "nothing else",
        ),
        heldout=(
            "what {name} wants to know about {city} in the chat is in my mail; chat back just the number",
            "help {name}, who asks about {city} in teams: send the number from my mail as a chat message, alone",
            "the chat with {name} has an open question on {city}; answer it there with the number from the mail, "
            "digits only",
            "read {name}'s chat question on {city}, look up the mail it means and send {name} its number by chat",
        ),
    ),
)
