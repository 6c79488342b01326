"""Names of persons for the documents that the tagger is trained on."""

import random
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple
from zlib import crc32

DATA = Path(__file__).parent / "data"
Split = Literal["train", "validation"]
_VALIDATION = 10
"""One name of ten is only in the documents of validation."""
_MADE_UP = 0.3
"""Share of names that are put together from two of a list, so that forms are learned and not lists."""


class Name(NamedTuple):
    """A person's name in parts."""

    first: str
    last: str
    particle: str
    """Between both, such as ``van der``; "" = none."""
    culture: str
    is_native: bool
    """In the script of the language, where that is not Latin."""


@cache
def table_of(file: str) -> Mapping[str, Mapping[str, str]]:
    """Returns a table of the data folder."""
    loaded: Mapping[str, Mapping[str, str]] = tomllib.loads((DATA / file).read_text())
    return loaded


@cache
def _names(culture: str, key: str, split: Split) -> tuple[str, ...]:
    listed = " ".join(table_of(file).get(culture, {}).get(key, "") for file in ("names.toml", "names_public.toml"))
    names = [name.replace("_", " ") for name in dict.fromkeys(listed.split())]
    chosen = tuple(name for name in names if (crc32(name.encode()) % _VALIDATION == 0) == (split == "validation"))
    return chosen or tuple(names)


def cultures() -> tuple[str, ...]:
    """Returns the names of all cultures."""
    return tuple(table_of("names.toml"))


def all_names(split: Split) -> frozenset[str]:
    """Returns all first and last names of the split."""
    keys = ("first", "last", "native_first", "native_last", "native_middle")
    return frozenset(name for culture in cultures() for key in keys for name in _names(culture, key, split))


def make_name(source: random.Random, culture: str, split: Split, *, is_native: bool = False) -> Name:
    """Returns a name of the culture; one of three has parts that no list has."""
    table = table_of("names.toml")[culture]
    if is_native and "native_last" in table:
        return _native(source, culture, split)
    first, last = (_part(source, culture, key, split) for key in ("first", "last"))
    if culture == "spanish" and source.random() < 0.4:
        last += " " + _part(source, culture, "last", split)
    if source.random() < 0.1:
        first += source.choice((" ", " ", "-")) + _part(source, culture, "first", split)
    if source.random() < 0.06:
        last += "-" + _part(source, culture, "last", split)
    particles = table.get("particles", "").split()
    particle = source.choice(particles).replace("_", " ") if particles and source.random() < 0.15 else ""
    return Name(first, last, particle, culture, is_native=False)


def _native(source: random.Random, culture: str, split: Split) -> Name:
    table = table_of("names.toml")[culture]
    if letters := table.get("native_letters"):
        first = "".join(source.choice(letters) for _ in range(source.choice((1, 2, 2))))
    else:
        first = source.choice(_names(culture, "native_first", split))
    last = source.choice(_names(culture, "native_last", split))
    if (middles := table.get("native_middle")) and source.random() < 0.3:
        first += " " + source.choice(middles.split())
    return Name(first, last, "", culture, is_native=True)


def _part(source: random.Random, culture: str, key: str, split: Split) -> str:
    names = _names(culture, key, split)
    name = source.choice(names)
    if source.random() < _MADE_UP:
        other = source.choice(names)
        if len(name) >= 4 and len(other) >= 4 and "-" not in name + other:
            made = (
                name[: source.randint(2, min(4, len(name) - 1))]
                + other[-source.randint(2, min(5, len(other) - 1)) :]
            )
            return made[0] + made[1:].lower() if not made[1:].islower() else made
    return name


def spelt(source: random.Random, name: Name, form: str) -> str:
    """Returns the name in a form: ``name`` (usual order), ``lastfirst`` or ``person`` (any)."""
    last = f"{name.particle} {name.last}".strip().replace("' ", "'")
    if name.is_native and name.culture in ("chinese", "japanese", "korean"):
        space = " " if name.culture == "japanese" and source.random() < 0.3 else ""
        return f"{name.last}{space}{name.first}"
    if form == "lastfirst":
        return f"{last.upper() if source.random() < 0.2 else last}, {name.first}"
    if name.culture in ("chinese", "korean", "vietnamese", "japanese") and source.random() < 0.4:
        return f"{last} {name.first}"
    if name.is_native and source.random() < 0.4:
        return f"{last} {name.first}"
    draw = source.random() * (1.0 if form == "name" else 2.0)
    if draw < 0.8:
        return f"{name.first} {last}"
    middle = source.choice("ABCDEFGHJKLMNPRSTW")
    if draw < 0.88:
        return f"{name.first} {middle}. {last}"
    if draw < 0.95:
        return f"{name.first[0]}. {last}"
    if draw < 1.0:
        return (
            f"{name.first[0]}. {middle}. {last}"
            if source.random() < 0.5
            else f"{name.first} {last} {_suffix(source)}"
        )
    return source.choice((name.first, name.first, last, f"{last}, {name.first}", f"{name.first} {last}"))


def _suffix(source: random.Random) -> str:
    return source.choice(("Jr.", "Sr.", "III", "II", "Jr"))


def user_name(source: random.Random, name: Name) -> str:
    """Returns an identifier that a system makes of the name, such as ``mia_li_3668``."""
    first, last = (_plain(part) for part in (name.first, name.last))
    number = source.choice(("", str(source.randrange(1, 100)), f"{source.randrange(10000):04d}"))
    sign = source.choice(("_", "_", "_", ".", "-"))
    joined = source.choice(
        (f"{first}{sign}{last}", f"{first}{sign}{last}", f"{first}{sign}{last}", f"{last}{sign}{first}")
    )
    return f"{joined}{'_' if sign == '_' and number else ''}{number}"


def _plain(part: str) -> str:
    return "".join(letter for letter in part.lower() if letter.isalpha())
