"""Converts ids of people to addresses with names and back, and ids of items to message ids."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.headerregistry import Address
from zoneinfo import ZoneInfo

from upturn.environments.office.state import COMPANY, Group, Person, Workspace, is_address, is_outside
from upturn.errors import FileFormatError

_HOST = "upturn.invalid"
"""The host in message ids of an export. No real host can have this name (RFC 2606)."""
_ID = re.compile(r"[A-Za-z0-9._-]{1,80}")


@dataclass(frozen=True, slots=True)
class Directory:
    """Names and addresses, and the time zone."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Names of people and groups by id."""
    domain: str = COMPANY
    """Domain of the company's addresses, in lower case."""
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))

    def address(self, id_: str) -> Address:
        """The address of an id; raises FileFormatError for ids that cannot be written as one."""
        local, _, domain = id_.rpartition("@") if is_outside(id_) else (id_, "", self.domain)
        if not is_address(f"{local}@{domain}"):
            raise FileFormatError(f"{id_!r} cannot be written as an address")
        return Address(" ".join(self.names.get(id_, "").split()), local, domain)

    def id_of(self, address: str) -> str:
        """The id of a person of the company; the address itself for people outside."""
        local, _, domain = address.strip().lower().rpartition("@")
        return local if domain == self.domain or not domain else f"{local}@{domain}"


def directory_of(workspace: Workspace, zone: ZoneInfo, domain: str) -> Directory:
    """The directory of a workspace; ``domain``: of the company's addresses."""
    named: tuple[Person | Group, ...] = (*workspace.people.values(), *workspace.groups.values())
    return Directory({person.id: person.name for person in named}, domain, zone)


def message_id(id_: str) -> str:
    """The message id of an item, such as ``m12@upturn.invalid``; raises FileFormatError for unusual ids."""
    if not _ID.fullmatch(id_):
        raise FileFormatError(f"ids of things that are written to files have letters and digits, got {id_[:60]!r}")
    return f"{id_}@{_HOST}"


def id_in(text: str) -> str:
    """The item's id in a message id; empty = a foreign message id."""
    local, _, host = text.strip().strip("<>").rpartition("@")
    return local if host == _HOST and _ID.fullmatch(local) else ""
