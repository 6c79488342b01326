"""Names of persons, addresses and organisations for the evaluation of the tagger, which was not trained on them.

First and last names are in none of the lists that the tagger's documents are made from (a test compares them).
Addresses and organisations are whole ones in the forms of their countries, also made of other parts.
"""

import random
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_FILE = Path(__file__).parent / "people.toml"


class Person(NamedTuple):
    """A person's name in parts."""

    first: str
    last: str


@cache
def _lists() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text())


def make_person(source: random.Random) -> Person:
    """Returns a name of any culture."""
    culture = source.choice(list(_lists()["names"].values()))
    return Person(source.choice(culture["first"].split()), source.choice(culture["last"].split()))


def make_native(source: random.Random, language: str) -> str:
    """Returns a whole name in the script of the language."""
    return str(source.choice(_lists()["native"][language]))


def make_listed(source: random.Random, name: str) -> str:
    """Returns one of the ``addresses``, ``streets`` or ``organisations``."""
    return str(source.choice(_lists()["lists"][name]))


def all_names() -> frozenset[str]:
    """Returns all first and last names in Latin letters."""
    cultures = _lists()["names"].values()
    return frozenset(name for culture in cultures for names in culture.values() for name in names.split())
