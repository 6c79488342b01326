"""Words, sentences, headings and identifiers without names: what the tagger has to leave alone."""

import random
import re
from collections.abc import Callable, Mapping
from functools import cache

from upturn.loop.tagger.name import DATA, table_of
from upturn.loop.tagger.place import made_up, words_of

_LETTERS = re.compile(r"[^\W\d_]{2,}")
_SLOT = re.compile(r"\{(\w+)\}")
_LANGUAGES = ("en", "de", "fr", "es", "pt", "it", "nl", "pl", "sv", "tr", "cs", "ru", "ar", "hi", "el")
_WITHOUT_SPACES = ("zh", "ja")
_TITLED = 0.5
_PROSE = 0.25
"""Share of English sentences that are paragraphs of real prose or lines of code."""


class Prose:
    """Text in one language."""

    def __init__(self, source: random.Random, language: str, fill: Callable[[str], str]) -> None:
        """``fill`` returns a value for any slot of a sentence."""
        self._source, self._language, self._fill = source, language, fill

    def slot(self, slot: str) -> str:
        """Returns a value for the slot; raises KeyError for an unknown one."""
        if slot in ("sentence", "Sentence"):
            return self._sentence()
        if slot == "prose":
            return self._source.choice(prose_lines())
        if slot == "words":
            return self._words(self._source.randint(2, 7))
        if slot in ("word", "noun", "nouns", "verb", "adjective", "w"):
            return self._word()
        if slot in ("Word", "W"):
            return self._word().capitalize()
        return self._identifier(slot)

    def _word(self) -> str:
        draw = self._source.random()
        if self._language == "en" and draw < 0.5:
            return self._source.choice(words_of_cached("everyday") if draw < 0.25 else dictionary("scowl"))
        words = dictionary(self._language)
        # the first words of a dictionary are the most usual ones
        return words[int(len(words) * self._source.random() ** 1.5)]

    def _words(self, count: int) -> str:
        space = "" if self._language in _WITHOUT_SPACES else " "
        words = [self._word() for _ in range(count)]
        if self._source.random() < 0.25:
            kind = self._source.choice(
                ("products", "cities", "countries", "languages", "months", "weekdays", "products")
            )
            words[self._source.randrange(count)] = self._source.choice(words_of_cached(kind))
        if self._source.random() < 0.06:
            words[self._source.randrange(count)] = self._identifier(
                self._source.choice(("camel", "snake", "pascal", "made"))
            )
        return space.join(words)

    def _sentence(self) -> str:
        source = self._source
        if self._language == "en" and source.random() < _PROSE:
            return source.choice(prose_lines())
        patterns = sentences(self._language)
        if patterns and source.random() < 0.6:
            return _SLOT.sub(lambda match: self._fill(match[1]), source.choice(patterns))
        text = self._words(source.randint(4, 14))
        if self._language in _WITHOUT_SPACES:
            return text + "。"
        if source.random() < 0.3:
            text += source.choice((", ", " – ", "; ", ": ", " (", ' "')) + self._words(source.randint(2, 5))
        return text[0].upper() + text[1:] + source.choice((".", ".", ".", "?", "!"))

    def _identifier(self, slot: str) -> str:
        source = self._source
        words = [word for word in (self._english() for _ in range(source.randint(1, 3))) if word.isascii()] or [
            "item"
        ]
        forms: dict[str, Callable[[], str]] = {
            "snake": lambda: "_".join(words) + source.choice(("", "", "_id", "_at", "_name", "_2")),
            "kebab": lambda: "-".join(words),
            "camel": lambda: words[0] + "".join(word.capitalize() for word in words[1:] or ["item"]),
            "pascal": lambda: "".join(word.capitalize() for word in [*words, "Item"]),
            "const": lambda: "_".join(words).upper(),
            "CONSTS": lambda: " ".join(words).upper(),
            "UPPERWORDS": lambda: self._words(6).upper(),
            "path": lambda: (
                f"/{'/'.join(words)}/{self._english()}.{source.choice(('py', 'json', 'md', 'txt', 'log'))}"
            ),
            "made": lambda: made_up(source),
            "Heading": self._heading,
            "heading": lambda: self._heading() if source.random() < _TITLED else self._words(3).capitalize(),
        }
        return forms[slot]()

    def _english(self) -> str:
        words = dictionary("en")
        return words[int(len(words) * self._source.random() ** 2)]

    def _heading(self) -> str:
        source = self._source
        if self._language != "en" or source.random() < 0.5:
            return " ".join(self._word().capitalize() for _ in range(source.randint(1, 4)))
        words = words_of_cached("heading_words")
        start = source.randrange(len(words) - 3)
        return " ".join(words[start : start + source.randint(1, 3)])


@cache
def dictionary(language: str) -> tuple[str, ...]:
    """Returns the words of a language, the most usual ones first, without those that are mostly names."""
    path = DATA / "words" / f"{language}.txt"
    words = path.read_text().split() if path.exists() else _LETTERS.findall(" ".join(sentences(language)))
    tables = (table for file in ("names.toml", "names_public.toml") for table in table_of(file).values())
    names = {
        name
        for table in tables
        for key, value in table.items()
        if key != "native_letters"
        for name in value.split()
    }
    return tuple(word for word in words if word not in names)


@cache
def sentences(language: str) -> tuple[str, ...]:
    """Returns sentences with slots."""
    vocabulary = table_of("vocabulary.toml")
    listed: object = vocabulary["sentences"] if language == "en" else vocabulary["translated"].get(language, ())
    return tuple(str(item) for item in listed) if isinstance(listed, list) else ()


@cache
def words_of_cached(key: str) -> list[str]:
    """Returns a list of the vocabulary."""
    return words_of(key)


@cache
def prose_lines() -> tuple[str, ...]:
    """Returns paragraphs and lines of code without names."""
    return tuple(line.replace("\\n", "\n") for line in (DATA / "prose.txt").read_text().splitlines())


def all_words() -> frozenset[str]:
    """Returns the ordinary words of all dictionaries, lists and sentences."""
    texts = [path.read_text() for path in sorted((DATA / "words").glob("*.txt")) if "notice" not in path.name]
    texts += [
        "\n".join(prose_lines()),
        (DATA / "texts.txt").read_text(),
        *map("\n".join, map(sentences, _LANGUAGES)),
    ]
    vocabulary: Mapping[str, object] = table_of("vocabulary.toml")
    texts += [value for value in vocabulary.values() if isinstance(value, str)]
    return frozenset(_LETTERS.findall("\n".join(texts)))
