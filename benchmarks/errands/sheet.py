"""The spreadsheet app: read a range, find a text, write a value or a formula."""

from benchmarks.errands.formula import (
    CELL,
    FormulaError,
    cells_between,
    column_letters,
    column_number,
    is_formula_readable,
    shown_value,
)
from benchmarks.errands.operation import Arguments, Effect, Operation, OperationError, Parameter
from benchmarks.errands.workspace import Sheet, Workspace

_MAX_SHOWN_CELLS = 200


def _sheet(workspace: Workspace, name: str) -> Sheet:
    sheet = workspace.sheets.get(name)
    if sheet is None:
        raise OperationError("not_found", f"no sheet {name!r}; there are: {', '.join(workspace.sheets)}")
    return sheet


def _used_range(sheet: Sheet) -> str:
    matches = [match for match in map(CELL.fullmatch, sheet.cells) if match is not None]
    if not matches:
        return "A1:A1"
    right = column_letters(max(column_number(match[1]) for match in matches))
    return f"A1:{right}{max(int(match[2]) for match in matches)}"


def _read(workspace: Workspace, arguments: Arguments) -> Effect:
    sheet = _sheet(workspace, arguments.text("sheet"))
    span = arguments.text("range") or _used_range(sheet)
    first, _, last = span.partition(":")
    try:
        addresses = cells_between(first, last or first)
    except FormulaError:
        raise OperationError("bad_value", f"range {span!r} is too large") from None
    if len(addresses) > _MAX_SHOWN_CELLS:
        raise OperationError(
            "bad_value", f"a read shows at most {_MAX_SHOWN_CELLS} cells, {span!r} has {len(addresses)}"
        )
    if not last:
        return Effect(workspace, shown_value(sheet.cells, first) or "empty")
    rows: dict[str, list[str]] = {}
    for address in addresses:
        row = address.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        rows.setdefault(row, []).append(shown_value(sheet.cells, address) or "-")
    return Effect(workspace, "\n".join(f"{row} {' '.join(values)}" for row, values in rows.items()))


def _find(workspace: Workspace, arguments: Arguments) -> Effect:
    sheet = _sheet(workspace, arguments.text("sheet"))
    text = arguments.text("text").lower()
    hits = [cell for cell in sheet.cells if text == shown_value(sheet.cells, cell).lower()]
    if not hits:
        raise OperationError("not_found", f"no cell of {sheet.name} holds {text!r}")
    return Effect(workspace, " ".join(sorted(hits)))


def _write(workspace: Workspace, arguments: Arguments) -> Effect:
    sheet = _sheet(workspace, arguments.text("sheet"))
    cell, value = arguments.text("cell"), arguments.text("value")
    if value.startswith("="):
        value = value.upper().replace(" ", "")
        if not is_formula_readable(value[1:]):
            raise OperationError(
                "bad_formula", f"{value!r} cannot be read; use SUM, AVERAGE, MIN, MAX, COUNT, + - * /"
            )
    after = workspace.with_cell(sheet.name, cell, value)
    return Effect(after, shown_value(after.sheets[sheet.name].cells, cell))


_SHEET = Parameter("sheet")

OPERATIONS = (
    Operation("sheet", "read", (_SHEET, Parameter("range", "range", is_required=False)), _read),
    Operation("sheet", "find", (_SHEET, Parameter("text")), _find),
    Operation("sheet", "write", (_SHEET, Parameter("cell", "cell"), Parameter("value")), _write),
)
