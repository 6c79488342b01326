"""Comparison of changes with a goal, and progress towards it; formulas are compared by their values."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from upturn.environments.office.formulas import Key, equal_cells
from upturn.environments.office.generation import Scenario
from upturn.environments.office.state import Book, Sheet, Workspace, canonical_form, is_formula
from upturn.environments.office.summary import goal_for
from upturn.records import JsonValue

_MESSAGE_PATHS = ("mails/", "events/", "chats/", "channels/")
"""Prefixes of the paths of texts for people."""
_CELL = re.compile(r"files/([^/]+)/sheets/(.+)/cells/([A-Z]+[0-9]+)")


def progress(scenario: Scenario, actual_changes: Mapping[str, JsonValue]) -> float:
    """Jaccard index of the requested and the actual changes; in [0, 1].

    0 for tasks that only request an answer.
    """
    if not actual_changes or not scenario.goal:
        return 0.0
    wanted, actual = without_allowed(goal_for(scenario, actual_changes)), without_allowed(actual_changes)
    common = len(wanted) - len(unmet_paths(scenario.baseline, wanted, actual))
    return common / max(1, len(wanted.keys() | actual.keys()))


def is_allowed(path: str, value: JsonValue) -> bool:
    """True for the side effect of reading: a mail is marked as read (not as unread)."""
    return value is True and path.startswith("mails/m") and path.endswith("/is_read")


def without_allowed(changes: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The changes that must have been asked for."""
    return {path: value for path, value in changes.items() if not is_allowed(path, value)}


def unmet_paths(workspace: Workspace, goal: Mapping[str, JsonValue], actual: Mapping[str, JsonValue]) -> list[str]:
    """The paths at which the changes differ from the goal.

    ``workspace``: the initial one, with moved files at their final paths. Formulas are compared by ``equal_cells``.
    Texts in mails, messages and events have any accepted form, as in the user's agreement. Of two mails with one
    content, either may go to a recipient of both. A removal (None) is not met by the absence of a change.
    """
    different = [
        path for path, value in goal.items() if path not in actual or not _is_met(path, value, actual[path])
    ]
    formulas = [path for path in different if _is_formula(goal[path]) and _is_formula(actual.get(path))]
    same = _equal_paths(workspace, goal, actual, formulas) if formulas else frozenset()
    return [path for path in different if path not in same]


def _is_met(path: str, wanted_book: JsonValue, actual: JsonValue) -> bool:
    if actual == wanted_book:
        return True
    if not path.startswith(_MESSAGE_PATHS):
        return False
    left, right = _normalized(actual), _normalized(wanted_book)
    if path.endswith("/+") and isinstance(left, list) and isinstance(right, list):
        if path == "mails/+" and len(left) == len(right):
            left, right = by_recipient(left), by_recipient(right)
        return sorted(left, key=str) == sorted(right, key=str)  # they are sorted by the texts before normalization
    return left == right


def by_recipient(mails: Sequence[JsonValue]) -> list[JsonValue]:
    """One copy of each mail per recipient, so that one mail to two people equals two mails.

    Mails without recipients stay.
    """
    return [
        {**mail, "to": person}
        for mail in mails
        if isinstance(mail, dict)
        for person in _as_list(mail.get("to")) or [None]
    ]


def _as_list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _normalized(value: JsonValue) -> JsonValue:
    """The value with all its texts in canonical form."""
    if isinstance(value, str):
        return canonical_form(value)
    if isinstance(value, dict):
        return {name: _normalized(part) for name, part in value.items()}
    return [_normalized(part) for part in value] if isinstance(value, list) else value


def _is_formula(value: JsonValue) -> bool:
    return isinstance(value, str) and is_formula(value)


def _equal_paths(
    workspace: Workspace, goal: Mapping[str, JsonValue], actual: Mapping[str, JsonValue], paths: Sequence[str]
) -> frozenset[str]:
    """The paths among these, all of formulas, with equal values."""
    by_file: defaultdict[str, dict[Key, str]] = defaultdict(dict)
    for path in paths:
        if match := _CELL.fullmatch(path):
            by_file[match[1]][match[2], match[3]] = path
    paths_met: set[str] = set()
    for id_, cells in by_file.items():
        file = workspace.files.get(id_)
        if file is not None and isinstance(file.content, Book):
            wanted_book, actual_book = (_book_after(file.content, id_, changes) for changes in (goal, actual))
            paths_met |= {cells[key] for key in equal_cells(wanted_book, actual_book, list(cells))}
    return frozenset(paths_met)


def _book_after(book: Book, id_: str, changes: Mapping[str, JsonValue]) -> Book:
    """The workbook with the changes of its cells."""
    texts: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for path, value in changes.items():
        match = _CELL.fullmatch(path)
        if match is not None and match[1] == id_:
            texts[match[2]][match[3]] = value if isinstance(value, str) else ""
    for name, cells in texts.items():
        book = book.with_sheet(name, book.sheets.get(name, Sheet({})).with_cells(cells))
    return book
