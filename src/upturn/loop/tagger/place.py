"""Addresses and organisations for the documents that the tagger is trained on."""

import random
import re
from collections.abc import Callable, Mapping
from string import ascii_uppercase

from upturn.loop.tagger.name import Split, cultures, make_name, table_of

_SLOT = re.compile(r"\{(\w+)\}")
_ORDINALS = (
    "1st",
    "2nd",
    "3rd",
    "4th",
    "5th",
    "7th",
    "9th",
    "12th",
    "21st",
    "42nd",
    "First",
    "Second",
    "Third",
    "Fifth",
)
_DIRECTIONS = ("N", "S", "E", "W", "North", "South", "East", "West", "NE", "NW", "SW", "N.", "W.")
_VOWELS, _CONSONANTS = "aeiou", "bcdfghklmnprstvz"


def countries() -> tuple[str, ...]:
    """Returns the countries of addresses."""
    return tuple(table_of("places.toml"))


def make_address(source: random.Random, country: str, split: Split, kind: str = "forms") -> str:
    """Returns an address (``forms``) or the part with the street (``streets``)."""
    place: Mapping[str, object] = table_of("places.toml")[country]
    form = source.choice(_listed(place[kind]))
    return _filled(source, form, lambda slot: _part(source, place, slot, split))


def make_town_line(source: random.Random, country: str, split: Split) -> str:
    """Returns postal code and town in the country's order."""
    place: Mapping[str, object] = table_of("places.toml")[country]
    form = "{town}, {region} {code}" if country == "us" else "{code} {town}"
    return _filled(source, form, lambda slot: _part(source, place, slot, split))


def make_unit(source: random.Random, split: Split) -> str:
    """Returns a part of a building: ``Suite 217``."""
    place: Mapping[str, object] = table_of("places.toml")["us"]
    return _filled(source, source.choice(_listed(place["units"])), lambda slot: _part(source, place, slot, split))


def make_code(source: random.Random, country: str) -> str:
    """Returns a postal code."""
    place: Mapping[str, object] = table_of("places.toml")[country]
    return _digits(source, source.choice(_listed(place["code"])))


def make_organisation(source: random.Random, split: Split, *, is_native: bool = False) -> str:
    """Returns the name of an organisation."""
    tables: Mapping[str, Mapping[str, object]] = table_of("organisations.toml")
    kind = "native" if is_native else source.choice(("company", "company", "public"))
    form = source.choice(_listed(tables["forms"][kind]))

    def part(slot: str) -> str:
        if slot in tables["words"]:
            return source.choice(str(tables["words"][slot]).split()).replace("_", " ")
        if slot == "letters":
            return "".join(source.choice(ascii_uppercase) for _ in range(source.choice((2, 3, 3, 4))))
        if slot == "word":
            return source.choice(words_of("everyday")).capitalize()
        if slot == "made":
            made = made_up(source)
            return made.upper() if source.random() < 0.1 else made
        if slot == "town":
            return source.choice(_listed(table_of("places.toml")[source.choice(_LATIN)]["towns"]))
        name = make_name(source, source.choice(cultures()), split)
        return name.first if slot == "first" else name.last

    return _filled(source, form, part)


_LATIN = ("us", "uk", "au", "de", "fr", "es", "it", "pt", "nl", "nordic", "pl", "cz", "tr", "in", "africa")


def words_of(key: str) -> list[str]:
    """Returns a list of the vocabulary."""
    return [word.replace("_", " ") for word in str(table_of("vocabulary.toml")[key]).split()]


def made_up(source: random.Random) -> str:
    """Returns a word that no language has."""
    syllables = source.choice((2, 2, 3))
    made = "".join(source.choice(_CONSONANTS) + source.choice(_VOWELS) for _ in range(syllables))
    return (made + source.choice(("", "", "n", "x", "r", "s", "nt", "lia", "tec"))).capitalize()


def _number(source: random.Random) -> str:
    return str(source.randrange(1, source.choice((100, 1000, 19000))))


_PLAIN: Mapping[str, Callable[[random.Random], str]] = {
    "n": lambda source: str(source.randrange(1, source.choice((30, 250)))),
    "number": _number,
    "l": lambda source: source.choice("ABCDabc"),
    "pp": lambda source: source.choice(("RM", "MI", "NA", "TO", "BO", "FI")),
    "ordinal": lambda source: source.choice(_ORDINALS),
    "direction": lambda source: source.choice(_DIRECTIONS),
    "word": lambda source: source.choice(words_of("everyday")).capitalize(),
}
_MADE_UP = 0.5
"""Share of names of streets that no list has; half of it for towns."""


def _filled(source: random.Random, form: str, part: Callable[[str], str]) -> str:
    return _digits(source, _SLOT.sub(lambda match: part(match[1]), form))


def _digits(source: random.Random, form: str) -> str:
    signs = {"#": "0123456789", "@": ascii_uppercase}
    return "".join(source.choice(signs[sign]) if _is_code(form, place) else sign for place, sign in enumerate(form))


def _is_code(form: str, place: int) -> bool:
    """Whether the sign at the place stands for a digit or letter of a postal code, and not for itself."""
    if form[place] not in "#@":
        return False
    return form[place - 1 : place] in ("#", "@") or form[place + 1 : place + 2] in ("#", "@")


def _listed(value: object) -> list[str]:
    if isinstance(value, str):
        return [word.replace("_", " ") for word in value.split()]
    return [str(item).replace("_", " ") for item in value] if isinstance(value, list) else []


def _part(source: random.Random, place: Mapping[str, object], slot: str, split: Split) -> str:
    if slot in _PLAIN:
        return _PLAIN[slot](source)
    if slot == "code":
        return _digits(source, source.choice(_listed(place["code"])))
    if slot == "unit":
        return make_unit(source, split)
    if slot in ("first", "last"):
        name = make_name(source, str(place["language"]), split)
        return name.first if slot == "first" else name.last
    if slot == "stem" and source.random() < _MADE_UP:
        return _made_stem(source, place, split)
    if slot == "town" and source.random() < _MADE_UP / 2 and "latins" not in place:
        return made_up(source)
    values = _listed(place[slot if slot in place else f"{slot}s"])
    return source.choice(values).rstrip("_") if slot == "stem" else source.choice(values)


def _made_stem(source: random.Random, place: Mapping[str, object], split: Split) -> str:
    """Returns a name of a street that no list has; of the culture's last names or words where that is usual."""
    language = str(place["language"])
    stems = _listed(place["stems"])
    if language in ("chinese", "japanese", "korean", "arabic"):
        return source.choice(stems)
    draw = source.random()
    if draw < 0.5:
        name = make_name(source, language, split).last
        return name if language != "russian" else source.choice(stems)
    if draw < 0.75 and language in ("english", "african", "indian"):
        return source.choice(words_of("everyday")).capitalize()
    if language == "russian":
        return source.choice(stems)
    one, two = source.choice(stems), source.choice(stems)
    return (one[: max(2, len(one) // 2)] + two[len(two) // 2 :]).strip()
