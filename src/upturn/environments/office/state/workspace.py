"""The whole state of an office: mails, events, files, chats, people, and messages to the user.

Immutable: operations return a new workspace that shares unchanged parts, so that a snapshot is a reference and many
environments with the same start share their state.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter, is_
from typing import Any, TypeAlias, cast

from upturn.environments.office.state.chat import Channel, Chat
from upturn.environments.office.state.clock import add_minutes
from upturn.environments.office.state.diff import changed_facts, facts_of
from upturn.environments.office.state.event import Event
from upturn.environments.office.state.file import File, Page
from upturn.environments.office.state.mail import Mail, Rule
from upturn.environments.office.state.operation_error import OperationError
from upturn.environments.office.state.person import Group, Person, is_address, is_outside, person_of
from upturn.environments.office.state.simulated_user import Message, Persona
from upturn.environments.office.state.table import Table
from upturn.records import Action, JsonValue

Item: TypeAlias = Mail | Rule | Event | File | Page | Chat | Channel | Person | Group
TABLES = ("people", "groups", "mails", "rules", "events", "files", "pages", "chats", "channels")
_FIRST_NEW = 1_000
"""First number of ids of items that agents create; generated worlds stay below."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """The state that an agent can see or change."""

    owner: str
    """The person that the agent works for."""
    started_at: str
    """The moment at which the task started."""
    people: Table[Person] = field(default_factory=Table)
    groups: Table[Group] = field(default_factory=Table)
    mails: Table[Mail] = field(default_factory=Table)
    """The owner's mailbox."""
    rules: Table[Rule] = field(default_factory=Table)
    events: Table[Event] = field(default_factory=Table)
    """Events of all calendars."""
    files: Table[File] = field(default_factory=Table)
    pages: Table[Page] = field(default_factory=Table)
    chats: Table[Chat] = field(default_factory=Table)
    channels: Table[Channel] = field(default_factory=Table)
    persona: Persona = field(default_factory=Persona)
    seed: int = 0
    """Seed of random events: presence and delivery times."""
    elapsed: float = 0.0
    """Simulated seconds since the task started."""
    created: int = 0
    """Number of items created since the start."""
    messages: tuple[Message, ...] = ()
    """The agent's messages to the user."""
    shown: Action | None = None
    """The previewed action that the user has not decided on; None = none."""
    confirmed: frozenset[str] = frozenset()
    """Fingerprints of actions that the user agreed to and that are not done yet."""
    declined: int = 0
    """Number of proposals that the user declined."""

    @property
    def now(self) -> str:
        """The current moment, to the minute."""
        return add_minutes(self.started_at, minutes=self.elapsed // 60)

    def evolve(self, **values: Any) -> "Workspace":
        """The workspace with these fields replaced; twice as fast as ``dataclasses.replace``, which dominated a
        step."""
        current = list(_FIELDS(self))
        for name, value in values.items():
            current[_INDICES[name]] = value
        return Workspace(*current)

    def with_items(self, *items: Item) -> "Workspace":
        """The workspace with these items added or replaced in their tables."""
        by_table: dict[str, dict[str, Item]] = {}
        for item in items:
            by_table.setdefault(_TABLE_OF[type(item)], {})[item.id] = item
        return self.evolve(**{name: getattr(self, name).with_items(group) for name, group in by_table.items()})

    def without_item(self, item: Item) -> "Workspace":
        """The workspace without this item."""
        name = _TABLE_OF[type(item)]
        return self.evolve(**{name: getattr(self, name).without(item.id)})

    def new_id(self, prefix: str) -> tuple["Workspace", str]:
        """The workspace with a new id in use, and the id."""
        return self.evolve(created=self.created + 1), f"{prefix}{_FIRST_NEW + self.created}"

    def members(self, principal: str) -> frozenset[str]:
        """The people behind a person's or a group's id."""
        group = self.groups.get(principal)
        return frozenset(group.members) if group is not None else frozenset({principal})

    def chance(self, *about: object) -> float:
        """A random number in [0, 1), determined by the arguments and the workspace's seed."""
        text = "/".join(map(str, (self.seed, *about)))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest()) / 2**56


_NAMES = tuple(field.name for field in fields(Workspace))
_FIELDS = attrgetter(*_NAMES)
_STATE = attrgetter(*(name for name in _NAMES if name != "elapsed"))
_TABLES = cast(Callable[[Workspace], tuple[Table[Item], ...]], attrgetter(*TABLES))
_INDICES = {name: index for index, name in enumerate(_NAMES)}
_KINDS = (Person, Group, Mail, Rule, Event, File, Page, Chat, Channel)
_TABLE_OF: Mapping[type, str] = dict(zip(_KINDS, TABLES, strict=True))


def fingerprint(action: Action) -> str:
    """Equal for equal actions, in any order of parameters."""
    return json.dumps([action.target, action.operation, dict(action.parameters)], sort_keys=True)


def changes(before: Workspace, after: Workspace) -> dict[str, JsonValue]:
    """The differences by path: ``mails/m27/folder`` → its new value; None = removed.

    ``mails/+``: the facts of new items, sorted and without ids, so that the order of creation does not matter;
    ``mails/-``: the ids of removed items. An attachment whose content when sent differs from both the old and the
    new content is marked as such. Takes time proportional to the changes.
    """
    differences: dict[str, JsonValue] = {}
    for name, old_table, new_table in zip(TABLES, _TABLES(before), _TABLES(after), strict=True):
        if new_table is old_table:
            continue
        new: list[JsonValue] = []
        removed: list[JsonValue] = []
        for change in new_table.changes_since(old_table):
            if change.after is None:
                removed.append(change.id)
                continue
            sent = _changed_attachments(before, after, change.after)
            if change.before is None:
                facts = {key: value for key, value in facts_of(change.after).items() if key != "id"}
                new.append(facts | {"attachments": sent} if sent else facts)
            else:
                facts = dict(changed_facts(change.before, change.after))
                facts |= {"attachments": sent} if sent else {}
                differences |= {f"{name}/{change.id}/{path}": value for path, value in facts.items()}
        if new:
            differences[f"{name}/+"] = sorted(new, key=str)
        if removed:
            differences[f"{name}/-"] = removed
    return differences


def _changed_attachments(before: Workspace, after: Workspace, item: Item) -> list[JsonValue]:
    """The attachments of a mail if the content of one when sent differs from both the old and the new one; else
    empty."""
    if not isinstance(item, Mail):
        return []
    attachments: list[JsonValue] = []
    for id_, content in zip(item.attachments, item.enclosed, strict=False):  # ``enclosed`` is empty before sending
        files = (before.files.get(id_), after.files.get(id_))
        contents = [file.content for file in files if file is not None]
        attachments.append(id_ if content is None or content in contents else f"{id_} with other content")
    return [] if attachments == list(item.attachments[: len(attachments)]) else attachments


def is_alike(first: Workspace, second: Workspace) -> bool:
    """Whether only time passed between the two, by identity; equal workspaces may also give False."""
    return all(map(is_, _STATE(first), _STATE(second)))


def has_same_items(first: Workspace, second: Workspace) -> bool:
    """Whether both have the same items, by identity; equal workspaces may also give False."""
    return all(map(is_, _TABLES(first), _TABLES(second)))


def state_hash(after: Workspace, changed: Mapping[str, JsonValue], *, mark: JsonValue = None) -> str:
    """16 hex digits over the differences from the start, except times: equal for equal states of one task.

    ``changed``: from ``changes``. ``mark``: further content to hash; None = none.
    """
    messages = [(message.kind, message.text) for message in after.messages]
    rest = [after.created, messages, after.shown and fingerprint(after.shown), sorted(after.confirmed)]
    rest += [after.declined] if after.declined else []  # keeps older stored hashes valid
    text = json.dumps([changed, rest] if mark is None else [changed, rest, mark], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def principals(workspace: Workspace, people: tuple[str, ...]) -> tuple[str, ...]:
    """Ids of people and groups, and external addresses, without duplicates; raises OperationError for unknown
    ones."""
    ids = tuple(dict.fromkeys(person_of(person) for person in people))
    for id_ in ids:
        if is_outside(id_) and not is_address(id_):
            raise OperationError(
                "bad_value", f"{id_[:60]!r} is no address; these are such as ann.lee@fabrikam.example"
            )
        if not is_outside(id_) and id_ not in workspace.people and id_ not in workspace.groups:
            raise OperationError("not_found", f"nobody called {id_!r}; ids are such as {workspace.owner}")
    return ids


def outsiders(workspace: Workspace, people: Iterable[str]) -> tuple[str, ...]:
    """External people among these and the members of these groups, without duplicates."""
    members = (member for person in people for member in sorted(workspace.members(person)))
    return tuple(dict.fromkeys(person for person in members if is_outside(person)))
