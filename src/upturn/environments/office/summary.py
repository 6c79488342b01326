"""Sums by group as formulas in place of a pivot table, where the instruction does not ask for one."""

import re
from collections.abc import Mapping, Sequence

from upturn.environments.office.generation import Scenario
from upturn.environments.office.state import Book, area_of, column_letters, is_formula
from upturn.records import JsonValue

_PIVOTS = re.compile(r"(files/([^/]+)/sheets/.+)/pivots")


def goal_for(scenario: Scenario, actual: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """The scenario's goal; with formulas in the layout of these changes where they replace a pivot table.

    The labels of the groups may be in any order, under any heading, with or without a total at the end.
    """
    goal = scenario.goal
    match = next(filter(None, map(_PIVOTS.fullmatch, goal)), None)
    path = match[0] if match is not None else ""
    if match is None or actual.get(path) or "pivot" in scenario.instruction.lower():
        return goal
    sheet, pivots = match[1], goal[path]
    content = scenario.baseline.files[match[2]].content
    pivot = pivots[0] if isinstance(pivots, list) and pivots else None
    if not isinstance(pivot, dict) or pivot["how"] != "sum" or not isinstance(content, Book):
        return goal
    groups, values = _columns(content, str(pivot["source"]), (str(pivot["rows"]), str(pivot["values"])))
    rest = {name: value for name, value in goal.items() if not name.startswith(f"{sheet}/cells/")}
    count = (len(goal) - len(rest)) // 2 - 2  # without heading and total
    labels = [str(goal[f"{sheet}/cells/A{row}"]) for row in range(2, count + 2)]
    return {**rest, path: [], **_cells(f"{sheet}/cells/", labels, (groups, values), actual)}


def _columns(book: Book, source: str, headers: Sequence[str]) -> list[str]:
    """The ranges of the columns with these headers, without the headers."""
    name, _, area = source.rpartition("!")
    first, rows = area_of(area).first, area_of(area).rows
    cells = book.sheets[name].cells
    letters = map(column_letters, area_of(area).columns)
    by_header = {cells.get(f"{letter}{first.row}"): letter for letter in letters}
    return [f"{name}!{by_header[header]}{rows[1]}:{by_header[header]}{rows[-1]}" for header in headers]


def _cells(
    prefix: str, labels: Sequence[str], ranges: Sequence[str], actual: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """The required cells of a table of sums by these labels."""
    total = len(labels) + 2
    rows = [f"{prefix}A{row}" for row in range(2, total)]
    order = [actual.get(row) for row in rows]
    labels = [*map(str, order)] if sorted(map(str, order)) == sorted(labels) else labels
    cells: dict[str, JsonValue] = dict(zip(rows, labels, strict=True))
    for row, label in enumerate(labels, start=2):
        quoted = f'"{label}"'
        wanted = quoted if quoted in str(actual.get(f"{prefix}B{row}")) else f"A{row}"
        cells[f"{prefix}B{row}"] = f"=SUMIF({ranges[0]},{wanted},{ranges[1]})"
    if f"{prefix}A{total}" in actual or f"{prefix}B{total}" in actual:
        cells |= {f"{prefix}A{total}": "total", f"{prefix}B{total}": f"=SUM(B2:B{total - 1})"}
    for heading in (f"{prefix}A1", f"{prefix}B1", f"{prefix}A{total}"):
        text = actual.get(heading)
        if isinstance(text, str) and text.strip() and not is_formula(text):
            cells[heading] = text
        elif heading != f"{prefix}A{total}":
            cells[heading] = "a heading"
    return cells
