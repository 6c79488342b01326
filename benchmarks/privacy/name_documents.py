"""Texts with names, addresses and organisations: tickets, mails, calls of tools, chats, logs, tables.


The templates are other ones than those that the tagger was trained with. ``{person}`` is first and last name,
``{first}`` and ``{last}`` parts, ``{native:zh}`` a name in another script; all other words are to stay.
"""

import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.privacy.documents import NAMES, Document
from benchmarks.privacy.people import Person, make_listed, make_native, make_person

_FILE = Path(__file__).parent / "name_templates.txt"
_PLACEHOLDER = re.compile(r"\{([a-z]+)(?::([a-z]+))?\}")


def _user(source: random.Random, person: Person) -> str:
    first, last = (re.sub(r"\W", "", part).lower() for part in person)
    return source.choice((f"{first}_{last}_{source.randrange(1000, 10000)}", f"{first}.{last}", f"{first}_{last}"))


_MAKERS: Mapping[str, tuple[str, Callable[[random.Random, Person], str]]] = {
    "person": ("person", lambda _, person: f"{person.first} {person.last}"),
    "first": ("person", lambda _, person: person.first),
    "last": ("person", lambda _, person: person.last),
    "lower": ("person", lambda _, person: f"{person.first} {person.last}".lower()),
    "upper": ("person", lambda _, person: f"{person.first} {person.last}".upper()),
    "user": ("person", _user),
    "address": ("address", lambda source, _: make_listed(source, "addresses")),
    "street": ("address", lambda source, _: make_listed(source, "streets")),
    "org": ("organisation", lambda source, _: make_listed(source, "organisations")),
}


def make_name_document(source: random.Random, template: str) -> Document:
    """Returns the template with names; its form is ``NAMES``."""
    text, names, end = "", [], 0
    for match in _PLACEHOLDER.finditer(template):
        text += template[end : match.start()]
        if match[1] == "native":
            kind, value = "person", make_native(source, match[2])
        else:
            kind, make = _MAKERS[match[1]]
            value = make(source, make_person(source))
        if template.startswith(('{"', '[{"')):
            value = value.replace("\n", "\\n")
        names.append((kind, len(text), len(text) + len(value)))
        text, end = text + value, match.end()
    return Document(text + template[end:], tuple(names), NAMES)


def make_name_documents(count: int, seed: int) -> list[Document]:
    """Returns documents, all templates equally often."""
    source = random.Random(seed)
    templates = [line.replace("\\n", "\n") for line in _FILE.read_text().splitlines()]
    return [make_name_document(source, templates[number % len(templates)]) for number in range(count)]
