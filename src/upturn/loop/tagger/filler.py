"""Values for the slots of templates."""

import random
from collections.abc import Callable, Mapping
from functools import cache
from string import ascii_lowercase, ascii_uppercase, digits

from upturn.loop.tagger.mark import marked
from upturn.loop.tagger.name import Name, Split, cultures, make_name, spelt, user_name
from upturn.loop.tagger.place import (
    countries,
    made_up,
    make_address,
    make_code,
    make_organisation,
    make_town_line,
    make_unit,
    words_of,
)
from upturn.loop.tagger.prose import Prose

_CULTURES: Mapping[str, tuple[str, ...]] = {
    "en": cultures(), "de": ("german",), "fr": ("french",), "es": ("spanish",), "pt": ("portuguese",),
    "it": ("italian",), "nl": ("dutch",), "pl": ("polish",), "sv": ("nordic",), "tr": ("turkish",),
    "cs": ("czech",),
    "ru": ("russian",), "el": ("greek",), "ar": ("arabic",), "hi": ("indian",), "zh": ("chinese",),
    "ja": ("japanese",), "ko": ("korean",),
}  # fmt: skip
_COUNTRIES: Mapping[str, tuple[str, ...]] = {
    "en": ("us", "us", "us", "uk", "uk", "au", *countries()), "de": ("de",), "fr": ("fr",), "es": ("es",),
    "pt": ("pt",), "it": ("it",), "nl": ("nl",), "pl": ("pl",), "sv": ("nordic",), "tr": ("tr",), "cs": ("cz",),
    "ru": ("ru",), "el": ("uk",), "ar": ("ar",), "hi": ("in",), "zh": ("cn",), "ja": ("jp",), "ko": ("kr",),
}  # fmt: skip
_NATIVE = ("ru", "el", "ar", "hi", "zh", "ja", "ko")
"""Languages whose documents have names in their own script."""
_TITLES: Mapping[str, tuple[str, ...]] = {
    "en": ("Mr.", "Mrs.", "Ms.", "Mr", "Ms", "Dr.", "Prof.", "Miss", "Sir"), "de": ("Herr", "Frau", "Dr."),
}  # fmt: skip
_HOSTS = ("example.com", "corp.de", "gmail.com", "mail.org", "uni.edu")
_FAKE = 0.04
"""Share of slots of names with other words in them."""
_INSERTED = ("name", "name", "person", "first", "last", "first", "last", "user", "address", "street", "org")
_BESIDE = (
    ("", ""), ("", ""), ("", ""), ("", ","), ("", ":"), ("", "."), ("(", ")"), ('"', '"'), ("", "'s"), ("- ", ""),
    ("", " -"),
    ("<", ">"), ("", " |"), ("| ", ""), ("", ";"), ("@", ""), (": ", ""), ("=", ""), ("\n", "\n"), ("[", "]"),
    ("", "?"),
    ("'", "'"), ("", " and"), ("and ", ""), ("\n", ","), ("", "\n"), ("> ", ""), ("", ">"),
)  # fmt: skip
_FOREIGN = 0.25
"""Share of names of another culture than the document's language."""


class Filler:
    """Values for the slots of one template."""

    def __init__(self, source: random.Random, language: str, split: Split) -> None:
        self._source, self._language, self._split = source, language, split
        self._prose = Prose(source, language, self.slot)
        self._latest: Name = self._name()

    def slot(self, slot: str) -> str:
        """Returns a value for the slot; raises KeyError for an unknown one."""
        for ending, change in (("_lower", str.lower),):
            if slot.endswith(ending):
                return change(self.slot(slot.removesuffix(ending)))
        if slot in ("NAME", "ADDRESS", "ORG", "LASTFIRST", "CITY"):
            return self.slot(slot.lower()).upper()
        if self._source.random() < _FAKE and slot in (
            "name",
            "person",
            "first",
            "last",
            "address",
            "street",
            "org",
        ):
            return self._prose.slot(self._source.choice(("Word", "Heading", "words", "word", "Sentence")))
        if (person := self._person(slot)) is not None:
            return marked("person", person)
        if (address := self._address(slot)) is not None:
            return marked("address", address)
        if slot == "org":
            is_native = self._language in ("zh", "ja", "ko", "ar", "ru") and self._source.random() < 0.7
            return marked("organisation", make_organisation(self._source, self._split, is_native=is_native))
        if slot == "insert":
            return self._inserted()
        if slot in _PLAIN:
            return _PLAIN[slot](self._source)
        if slot in ("title", "zip"):
            return self._other(slot)
        return self._prose.slot(slot)

    def _other(self, slot: str) -> str:
        if slot == "title":
            return self._source.choice(_TITLES.get(self._language, ("Dr.",)))
        return make_code(self._source, self._country())

    def _inserted(self) -> str:
        """Returns text with something to find at any place in it."""
        source = self._source
        words = self.slot(source.choice(("prose", "sentence", "words", "sentence"))).split(" ")
        for _ in range(source.choice((1, 1, 1, 2, 3))):
            kind = source.choice(_INSERTED)
            value = self.slot(kind)
            draw = source.random()
            if draw < 0.12:
                value = value.lower()
            elif draw < 0.2:
                value = value.upper()
            start, stop = source.choice(_BESIDE)
            words.insert(source.randint(0, len(words)), f"{start}{value}{stop}")
        return " ".join(words)

    def _name(self) -> Name:
        source = self._source
        is_foreign = source.random() < _FOREIGN
        culture = source.choice(cultures() if is_foreign else _CULTURES[self._language])
        is_native = not is_foreign and self._language in _NATIVE
        return make_name(source, culture, self._split, is_native=is_native)

    def _person(self, slot: str) -> str | None:
        if slot not in ("name", "person", "lastfirst", "lastfirst2", "first", "last", "user"):
            return None
        if slot not in ("first", "last") or self._source.random() < 0.5:
            self._latest = self._name()
        name = self._latest
        if slot == "first":
            return name.first
        if slot == "last":
            return f"{name.particle} {name.last}".strip().replace("' ", "'")
        if slot == "user":
            return user_name(self._source, self._name() if name.is_native else name)
        form = "lastfirst" if slot.startswith("lastfirst") else slot
        text = spelt(self._source, name, form)
        return text.replace(",", "") if slot == "lastfirst2" else text

    def _country(self) -> str:
        is_foreign = self._source.random() < _FOREIGN and self._language not in ("zh", "ja", "ko")
        return self._source.choice(countries() if is_foreign else _COUNTRIES[self._language])

    def _address(self, slot: str) -> str | None:
        source = self._source
        if slot == "address":
            return make_address(source, self._country(), self._split)
        if slot == "street":
            return make_address(source, self._country(), self._split, "streets")
        if slot == "townline":
            return make_town_line(source, self._country(), self._split)
        return make_unit(source, self._split) if slot == "unitonly" else None


def _chosen(key: str) -> Callable[[random.Random], str]:
    return lambda source: source.choice(_list(key))


@cache
def _list(key: str) -> list[str]:
    return words_of(key)


def _text(source: random.Random, alphabet: str, count: int) -> str:
    return "".join(source.choice(alphabet) for _ in range(count))


def _code(source: random.Random) -> str:
    return source.choice((
        _text(source, ascii_uppercase, 3) + _text(source, digits, 3), _text(source, ascii_uppercase + digits, 6),
        "#W" + _text(source, digits, 7), f"{_text(source, ascii_uppercase, 2)}-{_text(source, digits, 4)}",
        _text(source, digits, 8), f"INV-2024-{_text(source, digits, 3)}",
    ))  # fmt: skip


def _date(source: random.Random) -> str:
    day, month, year = source.randrange(1, 29), source.randrange(1, 13), source.randrange(1950, 2026)
    return source.choice((
        f"{year}-{month:02d}-{day:02d}", f"{day:02d}.{month:02d}.{year}", f"{month}/{day}/{year}",
        f"{day} {source.choice(_list('months'))} {year}", f"{source.choice(_list('months'))} {day}, {year}",
    ))  # fmt: skip


def _time(source: random.Random) -> str:
    hour, minute = source.randrange(24), source.randrange(60)
    return source.choice(
        (f"{hour:02d}:{minute:02d}", f"{hour:02d}:{minute:02d}:00", f"{hour % 12 + 1}:{minute:02d} PM")
    )


def _email(source: random.Random) -> str:
    name = make_name(source, source.choice(cultures()), "train")
    local = source.choice((user_name(source, name), "info", "support", "sales", "no-reply"))
    return f"{local}@{source.choice(_HOSTS)}"


def _phone(source: random.Random) -> str:
    form = source.choice(("+49 30 #######", "(###) ###-####", "+1 ### ### ####", "0## #### ####", "555-01##"))
    return "".join(source.choice(digits) if sign == "#" else sign for sign in form)


def _amount(source: random.Random) -> str:
    return source.choice(
        (f"{source.randrange(10, 2000)}.{source.randrange(100):02d}", str(source.randrange(1, 5000)), "1,299.00")
    )


_PLAIN: Mapping[str, Callable[[random.Random], str]] = {
    "n": lambda source: str(source.choice((source.randrange(10), source.randrange(100), source.randrange(2000)))),
    "n3": lambda source: str(source.randrange(100, 10_000_000)),
    "n4": lambda source: f"{source.randrange(10_000):04d}",
    "city": _chosen("cities"), "country": _chosen("countries"), "product": _chosen("products"),
    "model": _chosen("models"), "language": _chosen("languages"), "airport": _chosen("airports"),
    "role": _chosen("roles"), "month": _chosen("months"), "weekday": _chosen("weekdays"),
    "Interjection": _chosen("interjections"),
    "yesno": lambda source: source.choice(("yes", "no", "true", "false", "none", "null", "Yes", "No", "n/a")),
    "brand": lambda source: source.choice(("Visa", "Mastercard", "PayPal", "American Express", "SEPA")),
    "pronoun": lambda source: source.choice(("he", "she", "they")),
    "Sentence_pronoun": lambda source: source.choice(("He is my son.", "She is my wife.", "They are late.")),
    "code": _code, "date": _date, "time": _time, "email": _email, "phone": _phone, "amount": _amount,
    "hex": lambda source: _text(source, "0123456789abcdef", source.choice((7, 12, 40))),
    "version": lambda source: f"{source.randrange(9)}.{source.randrange(20)}.{source.randrange(9)}",
    "url": lambda source: f"https://{_text(source, ascii_lowercase, 6)}.com/{made_up(source).lower()}?page=2",
}  # fmt: skip
