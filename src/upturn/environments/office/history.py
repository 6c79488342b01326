"""What happened to the items of an office on the way, beyond the final changes: changes undone, and bulk marking.

A change that is undone leaves no trace in the final state, but others may have seen it: people who are invited are
notified of every move, an organizer of every reply, and readers of a shared file see what it says meanwhile. Not
covered: a change of a file that is corrected without being undone, because work in several steps looks the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from upturn.environments.office.state import TABLES, Event, File, Item, Workspace, changed_facts
from upturn.records import JsonValue

OPENING = "outlook.read"
"""The operation that marks a mail as read because it was opened."""


@dataclass(frozen=True, slots=True)
class History:
    """The versions of every item that changed, oldest first. Immutable; items are shared with the workspaces."""

    versions: Mapping[tuple[str, str], tuple[Item | None, ...]] = field(default_factory=dict)
    """By table and id; None = absent."""
    marked: frozenset[str] = frozenset()
    """Ids of mails that were marked as read without being opened."""

    def after(self, before: Workspace, after: Workspace, operation: str) -> "History":
        """The history with one more step, by the operation of this full name."""
        versions, marked = dict(self.versions), set(self.marked)
        for name in TABLES:
            old, new = getattr(before, name), getattr(after, name)
            if old is new:
                continue
            for change in new.changes_since(old):
                key = (name, change.id)
                versions[key] = (*versions.get(key, (change.before,)), change.after)
                if name == "mails" and change.before is not None and change.after is not None:
                    is_opened = change.after.is_read and not change.before.is_read
                    marked |= {change.id} if is_opened and operation != OPENING else set()
        return History(versions, frozenset(marked))

    def summary(self, workspace: Workspace) -> dict[str, JsonValue]:
        """The undone changes by whether others could see them, and the mails marked but not opened; empty if there
        are none.

        ``seen`` and ``unseen``: a path ``events/e5`` for every change undone; ``marked``: ids.
        """
        undone: dict[str, list[JsonValue]] = {"seen": [], "unseen": []}
        for (table, id_), versions in self.versions.items():
            items = [item for item in versions if item is not None]
            is_seen = any(_is_seen(item, workspace.owner) for item in items)
            is_announced = is_seen and isinstance(items[0], Event)
            count = _announcements(versions, workspace.owner) if is_announced else _returns(versions)
            undone["seen" if is_seen else "unseen"] += [f"{table}/{id_}"] * ((count + 1) // 2)
        marked: list[JsonValue] = [*sorted(self.marked)]
        return {name: paths for name, paths in {**undone, "marked": marked}.items() if paths}


def _is_seen(item: Item, owner: str) -> bool:
    """Whether others see changes of the item: events with other people, and files that others may open."""
    if isinstance(item, Event):
        return item.organizer != owner or any(attendee.person != owner for attendee in item.attendees)
    return isinstance(item, File) and (bool(item.rights) or item.owner != owner)


def _announcements(versions: tuple[Item | None, ...], owner: str) -> int:
    """How often others were notified of another time of an event, or of another reply of the owner, beyond the once
    that the final state needs."""
    notices = [_notice(item, owner) for item in versions]
    steps = sum(one != other for one, other in pairwise(notices))
    return steps - (notices[0] != notices[-1])


def _notice(item: Item | None, owner: str) -> tuple[object, ...]:
    if not isinstance(item, Event):
        return ()
    return item.start, item.end, *(person.response for person in item.attendees if person.person == owner)


def _returns(versions: tuple[Item | None, ...]) -> int:
    """How often the item became what it had been before; a read flag makes no difference."""
    distinct, count = [versions[0]], 0
    for item in versions[1:]:
        if not _is_same(distinct[-1], item):
            count += any(_is_same(earlier, item) for earlier in distinct)
            distinct.append(item)
    return count


def _is_same(one: Item | None, other: Item | None) -> bool:
    if one is None or other is None:
        return one is other
    return not any(path != "is_read" for path, _ in changed_facts(one, other))


def undone_paths(history: JsonValue, name: str) -> list[str]:
    """The entries of this name in a stored summary; empty where there is none, as in older trajectories."""
    return [*_texts(history.get(name))] if isinstance(history, dict) else []


def _texts(values: JsonValue) -> Iterator[str]:
    return (str(value) for value in values) if isinstance(values, list) else iter(())
