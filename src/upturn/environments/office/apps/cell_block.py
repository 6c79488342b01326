"""Blocks of cells as agents write them: JSON lists of rows, or lines of text with commas or tabs between cells."""

import csv
import json
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from upturn.environments.office.apps.operation import MAX_BATCH
from upturn.environments.office.state import OperationError

MAX_WRITTEN = 1_000
"""Limit on the cells that one action writes."""
MAX_CELL = 2_000
"""Limit on the characters of one cell."""
_MAX_TEXT = 100_000
"""Limit on the characters of all rows as one text."""


def _to_rows(value: object) -> object:
    """Rows from a text, one value, one row or a list of rows."""
    if isinstance(value, str):
        return _parse_rows(value)
    if isinstance(value, list):
        return value if value and all(isinstance(row, list) for row in value) else [value]
    return [[value]]


def _parse_rows(text: str) -> object:
    if len(text) > _MAX_TEXT:
        raise ValueError(f"at most {_MAX_TEXT} characters at once, got {len(text)}")
    if text.startswith("["):
        try:
            return _to_rows(json.loads(text))
        except (ValueError, RecursionError):
            pass  # a text such as [draft]
    separator = "\t" if "\t" in text else ","
    try:
        return list(csv.reader(text.strip("\n").split("\n"), delimiter=separator, skipinitialspace=True))
    except csv.Error as exc:
        raise ValueError(f"rows are lines with commas between cells, or JSON lists ({exc})") from None


def _text(value: object) -> object:
    """The text of a cell for a number, boolean or null; other values unchanged."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return str(value)
    return "" if value is None else value


def _check_cell_text(text: str) -> str:
    """The text; raises OperationError if a cell cannot hold it."""
    if any(ord(sign) < 32 and sign not in "\n\t" for sign in text):
        raise OperationError("bad_value", f"a cell holds no control characters, got {text[:60]!r}")
    if len(text) > MAX_CELL:
        raise OperationError("bad_value", f"a cell holds at most {MAX_CELL} characters, got {len(text)}")
    return text


CellText: TypeAlias = Annotated[str, BeforeValidator(_text), AfterValidator(_check_cell_text)]
Rows: TypeAlias = Annotated[
    tuple[tuple[CellText, ...], ...],
    BeforeValidator(_to_rows),
    Field(
        min_length=1,
        max_length=MAX_BATCH,
        description="rows of values: JSON lists, or lines with commas between cells; no value empties a cell",
    ),
]
