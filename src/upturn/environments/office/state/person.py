"""People of the company, groups of them, and people outside."""

import re

from upturn.records import record

_ADDRESS = re.compile(r"[!#-'*+/-9=?A-Z^-~-]+(?:\.[!#-'*+/-9=?A-Z^-~-]+)*@[A-Za-z0-9.-]+")
"""Plain ones (RFC 5322, dot-atom)."""
COMPANY = "contoso.example"
"""The company's domain; people with another one are outside."""


@record
class Person:
    """A person of the company."""

    id: str
    """``ann.lee``, which is the part of the address before the company's domain."""
    name: str
    title: str = ""
    department: str = ""
    manager: str = ""
    """An id; empty = nobody."""
    delegates: tuple[str, ...] = ()
    """Who may send on this person's behalf."""


@record
class Group:
    """A named group of people that mails, permissions and teams can refer to."""

    id: str
    name: str
    members: tuple[str, ...]


def person_of(address: str) -> str:
    """The id for an address of the company, the address itself for one outside; ids stay as they are."""
    local, at, domain = address.strip().lower().partition("@")
    return local if at and domain == COMPANY else address.strip().lower()


def is_outside(person: str) -> bool:
    """Whether an id or address belongs to a person outside the company."""
    return "@" in person


def is_address(text: str) -> bool:
    """Whether a mail could be addressed to it."""
    return _ADDRESS.fullmatch(text) is not None
