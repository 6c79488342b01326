"""Tasks in chats."""

from upturn.environments.office.generation import (
    AMOUNTS,
    Draft,
    Family,
    Scene,
    add_lookalikes,
    any_channel,
    call,
    members_of,
    message_about,
    open_mail,
    send_by_chat_id,
    with_agreement,
)
from upturn.environments.office.state import Channel, Chat, add_minutes

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
    topic, number = scene.words.topic(), scene.words.digits()
    conversation: Chat | Channel = scene.rng.choice((channel, scene.add_chat(name)))
    posts = [(conversation, name, topic, number), (channel, other, topic, scene.words.digits())]
    posts.append((channel, name, scene.words.similar(topic), scene.words.digits()))
    scene.rng.shuffle(posts)
    for target, sender, about, digits in posts:
        scene.add_post(target, sender, message_about(scene, about, digits))
    return Draft.with_answer(
        {"name": name, "topic": topic}, number, call("teams.search_chat", query=topic, sender=name)
    )


def _message(scene: Scene) -> Draft:
    """A message to the person who asked in a channel."""
    channel, other = any_channel(scene), any_channel(scene)
    asker, bystander = members_of(scene, channel)[:2]
    topic, text = scene.words.topic(), scene.words.phrase()
    scene.add_post(channel, asker, scene.rng.choice(_ASKS).format(topic=topic))
    for target, sender in ((channel, bystander), (other, members_of(scene, other)[0])):
        scene.add_post(target, sender, scene.rng.choice(_ASKS).format(topic=scene.words.similar(topic)))
    return Draft.with_finish(
        {"topic": topic, "phrase": f'"{text}"'},
        call("teams.search_chat", query=topic),
        *with_agreement(call("teams.send_message", to=asker, text=text)),
        also=send_by_chat_id(scene, asker, text),
    )


def _meeting(scene: Scene) -> Draft:
    """A meeting at the first of three proposed times at which the owner is free."""
    name, day, minutes = scene.person(), scene.day(), scene.rng.choice(_MINUTES)
    topic, title, index = scene.words.topic(), scene.words.title(), scene.rng.randrange(3)
    starts = [f"{day} {hour:02d}:00" for hour in sorted(scene.rng.sample(range(9, 17), 3))]
    for start in starts:
        scene.clear(start, add_minutes(start, minutes=minutes))
    for start in starts[:index]:
        busy_from = add_minutes(start, minutes=scene.rng.choice((0, 15)))
        scene.add_event(scene.words.title(), busy_from, minutes=30, people=scene.people(1))
    offers = (
        "can we talk about the {topic} on {first}, {second} or {third}, for {minutes} minutes?",
        "let us speak about the {topic}: {first}, else {second} or {third}, it takes {minutes} minutes",
        "the {topic} needs {minutes} minutes of your time, {first} or {second} or {third}",
    )
    first, second, third = starts[0], starts[1][11:], starts[2][11:]
    text = scene.rng.choice(offers).format(topic=topic, first=first, second=second, third=third, minutes=minutes)
    scene.add_post(scene.add_chat(name), name, text)
    start = starts[index]
    end = add_minutes(start, minutes=minutes)
    return Draft.with_finish(
        {"name": name, "topic": topic, "title": f'"{title}"'},
        call("teams.search_chat", query=topic, sender=name),
        call("calendar.list", day=day),
        call("teams.create_meeting", title=title, start=start, end=end, people=name),
    )


def _answer(scene: Scene) -> Draft:
    """Answers a question in a chat with a number from a mail."""
    asker, sender = scene.people(2)
    topic, number = scene.words.topic(), scene.words.digits()
    asks = (
        f"do you have the number for the {topic}? {sender} has mailed it to you",
        f"what did {sender} write you, which number for the {topic}?",
        f"{sender} said you got a mail with the number on the {topic}; what is it?",
    )
    scene.add_post(scene.add_chat(asker), asker, scene.rng.choice(asks))
    mail = scene.add_mail(sender, topic, scene.words.letter(AMOUNTS, number))
    add_lookalikes(scene, mail, AMOUNTS)
    city = topic.rsplit(" ", 1)[1]
    return Draft.with_finish(
        {"name": asker, "city": city},
        call("teams.search_chat", query=city, sender=asker),
        *open_mail(mail),
        *with_agreement(call("teams.send_message", to=asker, text=number)),
        also=send_by_chat_id(scene, asker, number),
    )


FAMILIES = (
    Family("chat_number", 1, ("teams",), _number),
    Family("chat_message", 2, ("teams",), _message),
    Family("chat_meeting", 2, ("teams", "calendar"), _meeting),
    Family("chat_answer", 3, ("teams", "outlook"), _answer),
)
