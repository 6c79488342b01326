"""Tasks in chats, with what else they take."""

from upturn.environments.office.generation import (
    AMOUNTS,
    FINISH,
    Draft,
    Family,
    Scene,
    add_lookalikes,
    agreed,
    answer,
    any_channel,
    call,
    digits,
    in_chat,
    letter,
    members_of,
    near,
    phrase,
    says,
    titles,
    topics,
)
from upturn.environments.office.state import Channel, Chat, later

_ASKS = (
    "does anybody know who has the {topic}?",
    "has somebody seen the {topic}?",
    "who can help me with the {topic}?",
    "i am still waiting for the {topic}, any news?",
)
_MINUTES = (30, 45, 60)


def _number(scene: Scene) -> Draft:
    channel = any_channel(scene)
    name, other = members_of(scene, channel)[:2]
    topic, number = topics(scene.rng, 1)[0], digits(scene.rng)
    place: Chat | Channel = scene.rng.choice((channel, scene.add_chat(name)))
    said = [(place, name, topic, number), (channel, other, topic, digits(scene.rng))]
    said.append((channel, name, near(scene.rng, topic), digits(scene.rng)))
    scene.rng.shuffle(said)
    for where, who, about, what in said:
        scene.add_post(where, who, says(scene, about, what))
    return Draft(
        {"name": name, "topic": topic},
        (call("teams.search_chat", query=topic, sender=name), answer(number)),
        answer=number,
    )


def _message(scene: Scene) -> Draft:
    """To whoever asked in a channel."""
    channel, other = any_channel(scene), any_channel(scene)
    asker, bystander = members_of(scene, channel)[:2]
    topic, text = topics(scene.rng, 1)[0], phrase(scene.rng)
    scene.add_post(channel, asker, scene.rng.choice(_ASKS).format(topic=topic))
    for where, who in ((channel, bystander), (other, members_of(scene, other)[0])):
        scene.add_post(where, who, scene.rng.choice(_ASKS).format(topic=near(scene.rng, topic)))
    return Draft(
        {"topic": topic, "phrase": f'"{text}"'},
        (
            call("teams.search_chat", query=topic),
            *agreed(call("teams.send_message", to=asker, text=text)),
            FINISH,
        ),
        also=in_chat(scene, asker, text),
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
        also=in_chat(scene, asker, number),
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
