"""Vocabulary of office tasks: words that no base profile uses, and several phrasings of each fact."""

from collections.abc import Sequence
from random import Random

from upturn.environments.office.generation.grammar import RULES
from upturn.environments.office.generation.profile import MEETINGS

CITIES = (
    *("oslo", "lisbon", "vienna", "porto", "bergen", "turin", "lyon", "ghent", "bonn", "malmo", "riga", "tartu"),
    *("krakow", "basel", "leeds", "dresden", "utrecht", "toledo", "verona", "aarhus", "zagreb", "nantes"),
)
"""Second words of the subjects and titles of tasks."""
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
"""Corrections of an earlier amount."""
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
"""Teams with channels; no base profile has them."""
FOLDERS = ("trips", "orders", "later", "reference", "partners", "costs", "quarter", "events")
"""Target folders of mails; no base profile has them."""
_SENTENCES = (
    "the {topic} is with us since friday",
    "about the {topic}: it stays as it was",
    "whoever looks for the {topic} asks at the desk",
    "we keep the {topic} for one more year",
    "the {topic} comes before everything else",
    "nobody changes the {topic} without a word",
)


class Words:
    """Random words, numbers and sentences of a task."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def topic(self) -> str:
        """A subject such as ``invoice oslo``, which no base profile has."""
        return self.topics(1)[0]

    def topics(self, count: int) -> list[str]:
        """Subjects that share no word."""
        return self._paired(RULES["thing"], count)

    def title(self) -> str:
        """The title of an event, such as ``review oslo``, which no base profile has."""
        return self.titles(1)[0]

    def titles(self, count: int) -> list[str]:
        """Titles that share no word."""
        return self._paired(MEETINGS, count)

    def similar(self, topic: str) -> str:
        """Another subject or title with the same first word."""
        word, city = topic.rsplit(" ", 1)
        return f"{word} {next(other for other in self._rng.sample(CITIES, 2) if other != city)}"

    def digits(self) -> str:
        """A number of three digits, as text."""
        return str(self._rng.randint(100, 999))

    def letter(self, facts: tuple[str, ...], number: object = "") -> str:
        """The body of a mail that states one of these facts; ``{n}`` is the number."""
        return self._rng.choice(_LETTERS).format(fact=self._rng.choice(facts).format(n=number))

    def phrase(self) -> str:
        """A message that the user wants sent word for word."""
        return self._rng.choice(PHRASES) + self._rng.choice(_ENDINGS)

    def decline_reason(self) -> str:
        """A reason for cancelling or declining a meeting."""
        return self._rng.choice(_REGRETS) + self._rng.choice(_ENDINGS)

    def sentences(self, topics: Sequence[str]) -> list[str]:
        """One sentence about each of these topics, all different; at most six."""
        texts = self._rng.sample(_SENTENCES, len(topics))
        return [text.format(topic=topic) for text, topic in zip(texts, topics, strict=True)]

    def _paired(self, words: Sequence[str], count: int) -> list[str]:
        pairs = zip(self._rng.sample(words, count), self._rng.sample(CITIES, count), strict=True)
        return [" ".join(pair) for pair in pairs]
