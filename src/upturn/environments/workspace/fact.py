"""An item as flat facts by path: what verifiers compare, and what the change of an office is written in."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from upturn.environments.workspace.book import Book, Sheet
from upturn.records import JsonValue


def facts_of(item: object) -> dict[str, JsonValue]:
    """By path, such as ``folder`` of a mail or ``sheets/Q3/cells/B4`` of a file. Empty texts and tuples are facts
    too, None is not."""
    found: dict[str, JsonValue] = {}
    for each in fields(item):  # type: ignore[arg-type]  # items are dataclasses
        if each.name not in _NO_FACTS:
            value = getattr(item, each.name)
            if isinstance(value, Book):
                for name, sheet in value.sheets.items():
                    found |= _sheet_facts(f"sheets/{name}", sheet)
            elif isinstance(value, Mapping):
                found |= {f"{each.name}/{key}": plain(inner) for key, inner in value.items()}
            elif value is not None:
                found[each.name] = plain(value)
    return found


_NO_FACTS = frozenset({"versions", "at", "by"})
"""What follows from facts, and when it was: the same work at another time is the same work."""


def _sheet_facts(path: str, sheet: Sheet) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {path: True}
    for part in ("cells", "formats", "filters"):
        mapping: Mapping[str, object] = getattr(sheet, part)
        found |= {f"{path}/{part}/{key}": plain(value) for key, value in mapping.items()}
    return found | {f"{path}/charts": plain(sheet.charts), f"{path}/pivots": plain(sheet.pivots)}


def plain(value: object) -> JsonValue:
    """As JSON holds it; records as objects of their fields that are not None."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    assert is_dataclass(value)
    inner = {each.name: getattr(value, each.name) for each in fields(value) if each.name not in _NO_FACTS}
    return {name: plain(each) for name, each in inner.items() if each is not None}
