"""A persistent mapping by id: copies share a base and cost only their changes."""

from collections.abc import Iterator, Mapping, ValuesView
from typing import Generic, NamedTuple, TypeVar

ItemT = TypeVar("ItemT")


class Change(NamedTuple, Generic[ItemT]):
    """One id whose item differs."""

    id: str
    before: ItemT | None
    """None = absent."""
    after: ItemT | None
    """None = absent."""


class Table(Mapping[str, ItemT]):
    """Items by id. Immutable: ``with_items`` and ``without`` return new tables that share the base.

    Iterates in the base's order, then in the order in which items were added.
    """

    __slots__ = ("_base", "_changes", "_lost")

    def __init__(self, base: Mapping[str, ItemT] | None = None) -> None:
        """``base``: must not change afterwards."""
        self._base: Mapping[str, ItemT] = {} if base is None else base
        self._changes: dict[str, ItemT] = {}
        self._lost: frozenset[str] = frozenset()

    def __getitem__(self, id_: str) -> ItemT:
        changed = self._changes.get(id_)
        if changed is not None:
            return changed
        if id_ in self._lost:
            raise KeyError(id_)
        return self._base[id_]

    def __contains__(self, id_: object) -> bool:
        return id_ in self._changes or (id_ in self._base and id_ not in self._lost)

    def __iter__(self) -> Iterator[str]:
        if self._lost:
            yield from (id_ for id_ in self._base if id_ not in self._lost)
        else:
            yield from self._base
        yield from (id_ for id_ in self._changes if id_ not in self._base)

    def __len__(self) -> int:
        return len(self._base) - len(self._lost) + sum(id_ not in self._base for id_ in self._changes)

    def values(self) -> ValuesView[ItemT]:
        """As ``Mapping.values``, but faster, for searches."""
        return _Values(self)

    def with_items(self, items: Mapping[str, ItemT]) -> "Table[ItemT]":
        """The table with these items new or replaced."""
        return self._copy({**self._changes, **items}, self._lost - items.keys() if self._lost else self._lost)

    def without(self, id_: str) -> "Table[ItemT]":
        """The table without this id; raises KeyError if there is none."""
        if id_ not in self:
            raise KeyError(id_)
        changes = {key: item for key, item in self._changes.items() if key != id_}
        return self._copy(changes, self._lost | {id_} if id_ in self._base else self._lost)

    def changes_since(self, before: "Table[ItemT]") -> Iterator[Change[ItemT]]:
        """The differences from ``before``, in this table's order; removed ids come last, sorted.

        Takes time proportional to the changes if both tables share their base.
        """
        if self._base is before._base:
            if self._changes is before._changes and self._lost is before._lost:
                return
            touched = dict.fromkeys((*self._changes, *before._changes, *sorted(self._lost | before._lost)))
        else:
            touched = dict.fromkeys((*self, *before))
        removed = []
        for id_ in touched:
            change = Change(id_, before.get(id_), self.get(id_))
            if change.after is None:
                removed.append(change)
            elif change.after is not change.before and change.after != change.before:
                yield change
        yield from sorted((change for change in removed if change.before is not None), key=lambda change: change.id)

    def _copy(self, changes: dict[str, ItemT], lost: frozenset[str]) -> "Table[ItemT]":
        copy: Table[ItemT] = Table(self._base)
        copy._changes = changes
        copy._lost = lost
        return copy


class _Values(ValuesView[ItemT]):
    """Reads the base and the changes in bulk, without a look-up per id."""

    _mapping: Table[ItemT]

    def __iter__(self) -> Iterator[ItemT]:
        base, changes, lost = self._mapping._base, self._mapping._changes, self._mapping._lost
        if not changes and not lost:
            return iter(base.values())
        merged = {**base, **changes}
        for id_ in lost:
            del merged[id_]
        return iter(merged.values())
