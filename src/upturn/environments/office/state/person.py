"""People of the company, groups of them, and people outside."""

import re

from upturn.records import record

_ADDRESS = re.compile(r"[!#-'*+/-9=?A-Z^-~-]+(?:\.[!#-'*+/-9=?A-Z^-~-]+)*@[A-Za-z0-9.-]+")
"""Plain addresses (RFC 5322, dot-atom)."""
COMPANY = "contoso.example"
"""The company's domain; people with other domains are external."""


@record
class Person:
    """A person of the company."""

    id: str
    """The local part of the address, such as ``ann.lee``."""
    name: str
    title: str = ""
    department: str = ""
    manager: str = ""
    """The manager's id; empty = none."""
    delegates: tuple[str, ...] = ()
    """People who may send on this person's behalf."""


@record
class Group:
    """A named group of people that mails, permissions and teams can refer to."""

    id: str
    name: str
    members: tuple[str, ...]


def person_of(address: str) -> str:
    """The id for an address of the company; external addresses and ids do not change, except for case."""
    local, at, domain = address.strip().lower().partition("@")
    return local if at and domain == COMPANY else address.strip().lower()


def is_outside(person: str) -> bool:
    """Whether an id or address belongs to a person outside the company."""
    return "@" in person


def is_address(text: str) -> bool:
    """Whether the text is a valid mail address."""
    return _ADDRESS.fullmatch(text) is not None
