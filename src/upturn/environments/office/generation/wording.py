"""Vocabulary of office tasks: words that no base profile uses, and several phrasings of one fact."""

from collections.abc import Sequence
from random import Random

from upturn.environments.office.generation.grammar import RULES
from upturn.environments.office.generation.profile import MEETINGS

CITIES = (
    *("oslo", "lisbon", "vienna", "porto", "bergen", "turin", "lyon", "ghent", "bonn", "malmo", "riga", "tartu"),
    *("krakow", "basel", "leeds", "dresden", "utrecht", "toledo", "verona", "aarhus", "zagreb", "nantes"),
)
"""With a thing they are the subjects, with a meeting the titles that tasks are about."""
AMOUNTS = (
    "the number is {n}",
    "it comes to {n} in all",
    "we are at {n} now",
    "my count is {n}",
    "that makes {n} altogether",
    "i have {n} written down",
    "{n} is what we agreed on",
    "they want {n}",
    "put {n} into the table",
)
CORRECTIONS = (
    "sorry, it is {n} after all",
    "correction: {n}",
    "that was wrong, the right number is {n}",
    "please use {n} instead",
    "it went to {n} since",
    "make that {n}",
)
"""Of an amount that was given before."""
REMARKS = (
    "thanks for that",
    "got it",
    "good to know, more on monday",
    "i will have a look",
    "let us talk about it at lunch",
    "fine with me",
    "ok, noted",
    "what do you say?",
)
"""Messages without content."""
_LETTERS = (
    "{fact}",
    "hello,\n{fact}.",
    "{fact}.\nmore on monday",
    "as promised: {fact}.\nbest",
    "in short: {fact}",
    "hi,\nhere it is: {fact}.\nthanks",
    "good morning,\nit took a while. {fact}.",
)
PHRASES = (
    *("yes please", "not this time", "i agree", "count me in", "all good here", "please go ahead", "let us wait"),
    *("i cannot say yet", "i need more time", "will do", "that is too late", "nothing new here"),
)
_REGRETS = (
    *("i am away that day", "i have another meeting then", "that hour does not suit me", "this has to wait"),
    *("there is nothing new to discuss", "i will write to you instead", "we are not ready for it yet"),
    *("too many of us are away", "i have to travel"),
)
_ENDINGS = (
    "",
    ", as discussed",
    ", more on friday",
    ", thanks for asking",
    ", sorry for the delay",
    ", call me if not",
)
TEAMS = (
    *("atlas", "comet", "delta", "ember", "falcon", "harbor", "indigo", "jasper", "kepler", "lotus", "meteor"),
    *("nova", "orbit", "prism", "quartz", "raven", "summit", "tundra", "vertex", "willow"),
)
"""That have channels; no base profile has them."""
FOLDERS = ("trips", "orders", "later", "reference", "partners", "costs", "quarter", "events")
"""That mails are moved to; no base profile has them."""


_SAYINGS = (
    "the {topic} is with us since friday",
    "about the {topic}: it stays as it was",
    "whoever looks for the {topic} asks at the desk",
    "we keep the {topic} for one more year",
    "the {topic} comes before everything else",
    "nobody changes the {topic} without a word",
)


def letter(rng: Random, facts: tuple[str, ...], number: object = "") -> str:
    """The body of a mail that states one of these facts; ``{n}`` is the number."""
    return rng.choice(_LETTERS).format(fact=rng.choice(facts).format(n=number))


def phrase(rng: Random) -> str:
    """A message that the user wants sent word for word."""
    return rng.choice(PHRASES) + rng.choice(_ENDINGS)


def decline_reason(rng: Random) -> str:
    """A reason for cancelling or declining a meeting."""
    return rng.choice(_REGRETS) + rng.choice(_ENDINGS)


def sayings(rng: Random, about: Sequence[str]) -> list[str]:
    """One sentence about each of these topics, all different; at most six."""
    return [text.format(topic=topic) for text, topic in zip(rng.sample(_SAYINGS, len(about)), about, strict=True)]


def digits(rng: Random) -> str:
    """A number of three digits, as text."""
    return str(rng.randint(100, 999))


def topics(rng: Random, count: int) -> list[str]:
    """Subjects such as ``invoice oslo``: no two share a word, and base profiles have none of them."""
    return _paired(rng, RULES["thing"], count)


def titles(rng: Random, count: int) -> list[str]:
    """Titles of events such as ``review oslo``: no two share a word, and base profiles have none of them."""
    return _paired(rng, MEETINGS, count)


def _paired(rng: Random, words: Sequence[str], count: int) -> list[str]:
    return [" ".join(pair) for pair in zip(rng.sample(words, count), rng.sample(CITIES, count), strict=True)]


def near(rng: Random, topic: str) -> str:
    """Another subject or title with the same first word."""
    word, city = topic.rsplit(" ", 1)
    return f"{word} {next(other for other in rng.sample(CITIES, 2) if other != city)}"
