"""Contents of cells: typed texts and their values.

Numbers are written as in Excel (without thousands separators, currencies or per cent signs); dates are texts such
as 2026-03-02, which sort chronologically. A text that starts with ``'`` is never a number or a formula; it is
displayed without that sign.
"""

import math
import re
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")
_LONGEST_NUMBER = 40
_WHOLE_BELOW = 1e15
"""Whole numbers below this are displayed with all digits."""


class CellError(Enum):
    """The error value of a formula."""

    DIVISION = "#DIV/0!"
    NAME = "#NAME?"
    NUMBER = "#NUM!"
    REFERENCE = "#REF!"
    VALUE = "#VALUE!"
    MISSING = "#N/A"


Value: TypeAlias = float | str | bool | CellError | None
"""None = the cell is empty."""
ERRORS = {error.value: error for error in CellError}
_WORDS: dict[str, bool | CellError] = {"TRUE": True, "FALSE": False, **ERRORS}


def is_formula(text: str) -> bool:
    """Whether a cell with this text is computed."""
    return text.startswith("=") and len(text) > 1


def parse_value(text: str) -> Value:
    """The value of a cell that is no formula; None for an empty text."""
    return _short_typed(text) if len(text) <= _LONGEST_NUMBER else text.removeprefix("'")


@lru_cache(maxsize=65_536)
def _short_typed(text: str) -> Value:
    if not text:
        return None
    if _NUMBER.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return _WORDS.get(text.upper(), text.removeprefix("'"))


def display_text(value: Value) -> str:
    """The displayed text: ten significant digits, whole numbers in full; empty for an empty cell."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return format_number(value, digits=10)
    return "" if value is None else value.value


def format_number(value: float, *, digits: int = 15) -> str:
    """A number as a cell's text; whole ones below 10¹⁵ have no exponent."""
    if value.is_integer() and abs(value) < _WHOLE_BELOW:
        return str(int(value))
    text = f"{value:.{digits}g}"
    return text if math.isfinite(float(text)) else repr(value)  # rounding the largest floats would give infinity


def cell_text(value: Value) -> str:
    """The cell text of a value; texts that would be read as another value get a ``'``."""
    if isinstance(value, float):
        return format_number(value)
    if isinstance(value, str) and (is_formula(value) or parse_value(value) != value):
        return f"'{value}"
    return display_text(value)


def normalize_text(text: str) -> str:
    """The canonical form of a typed text: 007 is 7, true is TRUE; formulas do not change."""
    return text if is_formula(text) else cell_text(parse_value(text))
