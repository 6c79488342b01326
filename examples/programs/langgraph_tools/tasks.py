"""Questions about a mailbox for the agent in `agent.py`: a number that stands in one mail among six.

upturn env validate tasks:kit        (in this folder)
upturn train grpo
"""

import json
import re

from upturn.environments import Solved, program_kit

FIRST = "ann", "bob", "cid", "dana", "eve", "fay", "gus", "ida", "jon", "kim"
LAST = "fox", "kay", "lee", "may", "orr", "poe", "ray", "sol", "tan", "voss"
THINGS = "agenda", "contract", "draft", "guest list", "invoice", "offer", "report", "room plan", "survey"
PLACES = "bergen", "bonn", "krakow", "lisbon", "lyon", "malmo", "oslo", "porto", "riga", "tartu"
TEXTS = "the number is {}", "it comes to {} in all", "we are at {} now", "that makes {} altogether"
QUESTIONS = {
    "train": (
        "how much did {name} write for {topic}?",
        "{topic}: say what {name} put there",
        "what figure has {name} under {topic}?",
    ),
    "heldout": (
        "{name} sent a figure for {topic}, say it",
        "say how much {topic} is by {name}",
    ),
}


def make(rng, split):
    """The question, its answer, and the mailbox: the mail, two that are like it, and another one."""
    names = [f"{first}.{last}" for first, last in zip(rng.sample(FIRST, 3), rng.sample(LAST, 3), strict=True)]
    topics = [f"{thing} {place}" for thing, place in zip(rng.sample(THINGS, 3), rng.sample(PLACES, 3), strict=True)]
    about = [(names[0], topics[0]), (names[0], topics[1]), (names[1], topics[0]), (names[2], topics[2])]
    numbers, ids = rng.sample(range(100, 1000), 4), rng.sample(range(100, 1000), 4)
    mails = [
        {
            "id": f"m{id_}",
            "at": f"2026-02-{rng.randint(10, 28)} {rng.randint(8, 17):02}:{rng.randint(0, 59):02}",
            "sender": name,
            "subject": topic,
            "text": rng.choice(TEXTS).format(number),
        }
        for id_, number, (name, topic) in zip(ids, numbers, about, strict=True)
    ]
    rng.shuffle(mails)
    question = rng.choice(QUESTIONS[split]).format(name=names[0], topic=topics[0])
    return question, {"answer": numbers[0]}, {"mails.json": json.dumps(mails, indent=1)}


def evaluate(answer, expected):
    """Whether the answer has the number, and no other."""
    return re.findall(r"\d+", answer) == [str(expected["answer"])]


def solve(expected):
    """The right answer."""
    return Solved(answer=str(expected["answer"]))


kit = program_kit("desk", make, evaluate, oracle=solve)
