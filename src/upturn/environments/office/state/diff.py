"""Items as flat facts by path, for verifiers and changes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter

from upturn.environments.office.state.workbook import Book, Sheet
from upturn.records import JsonValue


def facts_of(item: object) -> dict[str, JsonValue]:
    """The facts of an item by path, such as ``folder`` of a mail or ``sheets/Q3/cells/B4`` of a file; None is no
    fact."""
    facts: dict[str, JsonValue] = {}
    for name, value in _values(item):
        if isinstance(value, Book):
            facts |= _content_facts(name, value)
        elif isinstance(value, Mapping):
            facts |= {f"{name}/{key}": plain_json(inner) for key, inner in value.items()}
        elif value is not None:
            facts[name] = plain_json(value)
    return facts


def changed_facts(before: object, after: object) -> Iterator[tuple[str, JsonValue]]:
    """The facts in which two items of one kind differ, with the later values; None for removed facts.

    Shared values are skipped: a book with one changed cell takes as long as that cell's sheet.
    """
    for (name, old), (_, new) in zip(_values(before), _values(after), strict=True):
        if old is new:
            continue
        if isinstance(old, Book) and isinstance(new, Book):
            yield from _books_differing(old, new)
        elif isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _mappings_differing(name, old, new)
        elif isinstance(old, Book) or isinstance(new, Book):
            yield from _mappings_differing("", _content_facts(name, old), _content_facts(name, new))
        elif old != new:
            yield name, plain_json(new)


def _values(item: object) -> Iterator[tuple[str, object]]:
    """The fields that are facts, by name; values are references, so that shared ones are recognised."""
    kind: type = type(item)
    names, values = _fields_of(kind)
    return zip(names, values(item), strict=True)


@cache
def _fields_of(kind: type) -> tuple[tuple[str, ...], Callable[[object], tuple[object, ...]]]:
    """The names of a dataclass's fields that are facts, and a getter of all of them."""
    assert is_dataclass(kind)
    names = tuple(field.name for field in fields(kind) if field.name not in _NO_FACTS)
    return names, attrgetter(*names) if len(names) > 1 else lambda item: (getattr(item, names[0]),)


def _content_facts(name: str, content: object) -> dict[str, JsonValue]:
    if not isinstance(content, Book):
        return {} if content is None else {name: plain_json(content)}
    sheets = (_sheet_facts(f"sheets/{name}", sheet) for name, sheet in content.sheets.items())
    return {path: value for facts in sheets for path, value in facts.items()}


def _books_differing(before: Book, after: Book) -> Iterator[tuple[str, JsonValue]]:
    for name in {**before.sheets, **after.sheets}:
        path, old, new = f"sheets/{name}", before.sheets.get(name), after.sheets.get(name)
        if old is new:
            continue
        if old is None or new is None:
            facts = _sheet_facts(path, old or new or Sheet({}))
            yield from ((fact_path, value if old is None else None) for fact_path, value in facts.items())
            continue
        for part in _SHEET_MAPPINGS:
            yield from _mappings_differing(f"{path}/{part}", getattr(old, part), getattr(new, part))
        for part in _SHEET_VALUES:
            if getattr(old, part) != getattr(new, part):
                yield f"{path}/{part}", plain_json(getattr(new, part))


def _mappings_differing(
    path: str, before: Mapping[str, object], after: Mapping[str, object]
) -> Iterator[tuple[str, JsonValue]]:
    if before is after:
        return
    prefix = f"{path}/" if path else ""
    for key, value in after.items():
        old = before.get(key)
        if old is not value and old != value:
            yield f"{prefix}{key}", plain_json(value)
    yield from ((f"{prefix}{key}", None) for key in before if key not in after)


_NO_FACTS = frozenset({"versions", "at", "by", "is_delivered", "memo", "enclosed"})
"""Fields that are no facts: derived values, times and delivery, so that equal work at another time is equal."""
_SHEET_MAPPINGS = ("cells", "formats", "filters")
_SHEET_VALUES = ("charts", "pivots", "frozen_rows")


def _sheet_facts(path: str, sheet: Sheet) -> dict[str, JsonValue]:
    facts: dict[str, JsonValue] = {path: True}
    for part in _SHEET_MAPPINGS:
        mapping: Mapping[str, object] = getattr(sheet, part)
        facts |= {f"{path}/{part}/{key}": plain_json(value) for key, value in mapping.items()}
    return facts | {f"{path}/{part}": plain_json(getattr(sheet, part)) for part in _SHEET_VALUES}


def plain_json(value: object) -> JsonValue:
    """The value as JSON; records as objects of their fields that are not None."""
    if isinstance(value, (str, int, float)) or value is None:  # a union type takes three times as long
        return value
    if isinstance(value, Mapping):
        return {str(key): plain_json(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain_json(inner) for inner in value]
    return {name: plain_json(item) for name, item in _values(value) if item is not None}
