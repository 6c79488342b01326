"""What a detector returns: the position of personal data or a secret in a text."""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeAlias

FindingKind = Literal[
    "email", "phone", "card", "iban", "id", "ip", "mac", "birth_date", "key", "person", "address", "organisation"
]
"""``id``: numbers of persons that a state gives out, such as social security, tax, passport. ``key``: passwords,
tokens and private keys. ``person``: names, and identifiers that are made of a name."""


NAME_KINDS: frozenset[FindingKind] = frozenset(("person", "address", "organisation"))
"""Kinds without a form of their own, which the tagger finds."""


class Finding(NamedTuple):
    """The position of personal data or a secret in a text."""

    kind: FindingKind
    start: int
    stop: int


Detector: TypeAlias = Callable[[str], Iterable[Finding]]
"""Returns the findings of a text, in any order, overlapping or not. The text may be one value of a JSON object with
its name in front (``"name": "value"``), so that words of context in the name count."""
