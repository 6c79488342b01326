"""Tasks in the mailbox."""

from upturn.environments.suite.family import FINISH, Draft, Family, agreed, answer, call
from upturn.environments.suite.grammar import RULES
from upturn.environments.suite.scene import Scene

TOPICS = RULES["thing"]
PHRASES = ("yes please", "no thanks", "see you there", "i agree", "not this week", "sounds good", "will do")


def _sender_ask(scene: Scene) -> Draft:
    sender, topic = scene.people(1)[0], scene.rng.choice(TOPICS)
    number = scene.rng.randint(100, 999)
    mail = scene.add_mail(sender, f"{topic} news", f"the number is {number}")
    scene.add_mail(sender, "lunch", "see you at noon")
    return Draft(
        {"name": sender, "topic": f"{topic} news"},
        (
            call("outlook.search", sender=sender, subject=f"{topic} news"),
            call("outlook.read", id=mail.id),
            answer(str(number)),
        ),
        answer=str(number),
    )


def _reply(scene: Scene) -> Draft:
    sender, topic, phrase = scene.people(1)[0], scene.rng.choice(TOPICS), scene.rng.choice(PHRASES)
    mail = scene.add_mail(sender, f"{topic} question", "what do you say?")
    return Draft(
        {"name": sender, "topic": f"{topic} question", "phrase": f'"{phrase}"'},
        (
            call("outlook.search", sender=sender, subject=f"{topic} question"),
            *agreed(call("outlook.reply", id=mail.id, body=phrase)),
            FINISH,
        ),
    )


FAMILIES = (
    Family(
        "mail_number",
        1,
        ("outlook",),
        _sender_ask,
        templates=(
            "what number does {name} give in the {topic} mail?",
            "look up the number in {name}'s {topic} mail",
            "tell me the number that {name} sent under {topic}",
            "which number is in the mail about {topic} from {name}?",
            "find {name}'s mail on {topic} and tell me the number in it",
            "i need the number from {name}'s {topic} mail",
            "{name} wrote about {topic}: what is the number?",
            "the {topic} mail from {name} has a number, which one?",
        ),
        heldout=(
            "from the {topic} mail of {name}, what is the number?",
            "read me the number {name} mentions in {topic}",
            "what is the number in {topic}, the mail by {name}?",
        ),
    ),
    Family(
        "mail_reply",
        2,
        ("outlook",),
        _reply,
        templates=(
            "reply {phrase} to {name}'s {topic} mail",
            "answer {name}'s mail about the {topic} with {phrase}",
            "write {phrase} back to {name} on the {topic}",
            "{name} asks in the {topic} mail: say {phrase}",
            "respond {phrase} to the {topic} mail from {name}",
            "tell {name} {phrase} in answer to the {topic}",
            "the {topic} mail by {name} needs a reply: {phrase}",
            "please let {name} know {phrase}, as a reply to the {topic} mail",
        ),
        heldout=(
            "send {name} the answer {phrase} to the {topic} mail",
            "{name} is waiting for a word on the {topic}: reply {phrase}",
            "reply to the {topic} mail of {name} by {phrase}",
        ),
    ),
)
