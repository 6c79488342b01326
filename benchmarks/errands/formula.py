"""Spreadsheet values: simple formulas over a sheet, evaluated without ``eval``.

Supported: numbers, cell references, + - * / with brackets and unary minus, and SUM, AVERAGE, MIN, MAX, COUNT over
ranges and values. Texts and empty cells are skipped in a range and are 0 alone; ten significant digits are shown.
Not supported: text functions, other sheets, absolute references. Unsupported formulas show an error value
(``#NAME?``), as in any spreadsheet, and never raise an exception.

Work is bounded: each cell is evaluated once for one shown value, however many formulas refer to it.
"""

import math
import re
from collections.abc import Callable, Mapping
from functools import reduce

CELL = re.compile(r"([A-Z]{1,2})([1-9][0-9]{0,3})")
_TOKEN = re.compile(
    r"\s*(?:(\d+(?:\.\d+)?)|([A-Z]{1,2}[1-9]\d{0,3})(?![A-Z(\d])|([A-Z]+)(?=\()|([-+*/(),:]))", re.ASCII
)
_MAX_DEPTH = 40
"""Nesting of brackets and of references; beyond it a formula is ``#REF!`` like a cycle."""
_MAX_READS = 20_000
"""Cells read for one shown value, including indirect references; beyond it a formula is ``#REF!``."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)


class FormulaError(ValueError):
    """An error value that a spreadsheet shows."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        super().__init__(shown)


_FUNCTIONS: Mapping[str, Callable[[list[float]], float]] = {
    "SUM": sum,
    "AVERAGE": lambda values: sum(values) / len(values),
    "MIN": min,
    "MAX": max,
    "COUNT": lambda values: float(len(values)),
}


def column_number(letters: str) -> int:
    """A → 1, Z → 26, AA → 27."""
    return reduce(lambda number, letter: 26 * number + ord(letter) - ord("A") + 1, letters, 0)


def column_letters(number: int) -> str:
    """1 → A, 27 → AA."""
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def cells_between(first: str, last: str) -> list[str]:
    """Addresses of the rectangle between two cells, row by row. Raises FormulaError beyond 10,000 cells."""
    start, stop = CELL.fullmatch(first), CELL.fullmatch(last)
    if start is None or stop is None:
        raise FormulaError("#REF!")
    columns = sorted((column_number(start[1]), column_number(stop[1])))
    rows = sorted((int(start[2]), int(stop[2])))
    if (columns[1] - columns[0] + 1) * (rows[1] - rows[0] + 1) > 10_000:
        raise FormulaError("#REF!")
    return [
        f"{column_letters(column)}{row}"
        for row in range(rows[0], rows[1] + 1)
        for column in range(columns[0], columns[1] + 1)
    ]


def shown_value(cells: Mapping[str, str], cell: str) -> str:
    """The shown content of a cell: its text, or its formula's value or error value such as ``#DIV/0!``."""
    text = cells.get(cell, "")
    if not text.startswith("="):
        return text
    try:
        value = _Parser(_Evaluation(cells), text[1:]).value()
    except FormulaError as error:
        return error.shown
    return f"{value + 0.0:.10g}" if math.isfinite(value) else "#NUM!"  # + 0.0 removes the sign of a zero


def is_formula_readable(text: str) -> bool:
    """True when a formula (without its ``=``) can be parsed, whatever its references contain."""
    try:
        _Parser(_Evaluation({}, is_dry=True), text).value()
    except FormulaError:
        return False
    return True


class _Evaluation:
    """State shared by all formulas of one shown value; single use."""

    def __init__(self, cells: Mapping[str, str], *, is_dry: bool = False) -> None:
        self.cells = cells
        self.is_dry = is_dry
        """True = check only the grammar; division by zero is no error."""
        self.reads = 0
        self.values: dict[str, float] = {}
        """Formulas' values by cell. An error ends the whole evaluation, so it is not stored."""


class _Parser:
    """Recursive descent over one formula; single use."""

    def __init__(self, evaluation: _Evaluation, text: str, *, depth: int = 0) -> None:
        if depth > _MAX_DEPTH:
            raise FormulaError("#REF!")
        self._evaluation = evaluation
        self._depth = depth
        self._tokens = _tokens(text)
        self._at = 0

    def value(self) -> float:
        result = self._sum()
        if self._at != len(self._tokens):
            raise FormulaError("#NAME?")
        return result

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _expect(self, token: str) -> None:
        if self._take() != token:
            raise FormulaError("#NAME?")

    def _sum(self) -> float:
        result = self._product()
        while self._peek() in ("+", "-"):
            sign = 1 if self._take() == "+" else -1
            result += sign * self._product()
        return result

    def _product(self) -> float:
        result = self._atom()
        while self._peek() in ("*", "/"):
            if self._take() == "*":
                result *= self._atom()
                continue
            divisor = self._atom()
            if divisor != 0:
                result /= divisor
            elif not self._evaluation.is_dry:
                raise FormulaError("#DIV/0!")
        return result

    def _atom(self) -> float:
        token = self._take()
        if token == "-":
            return -self._nested(self._atom)
        if token == "(":
            result = self._nested(self._sum)
            self._expect(")")
            return result
        if token in _FUNCTIONS:
            return self._call(token)
        if CELL.fullmatch(token):
            values = self._numbers([token])
            return values[0] if values else 0.0
        try:
            return float(token)
        except ValueError:
            raise FormulaError("#NAME?") from None

    def _nested(self, parse: Callable[[], float]) -> float:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise FormulaError("#REF!")
        result = parse()
        self._depth -= 1
        return result

    def _call(self, name: str) -> float:
        self._expect("(")
        values: list[float] = []
        while True:
            token = self._peek()
            following = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else ""
            if CELL.fullmatch(token) and following == ":":
                self._at += 2
                values += self._numbers(cells_between(token, self._take()))
            elif CELL.fullmatch(token) and following in (",", ")"):
                values += self._numbers([self._take()])
            else:
                values.append(self._nested(self._sum))
            separator = self._take()
            if separator == ")":
                break
            if separator != ",":
                raise FormulaError("#NAME?")
        if not values and name != "COUNT":
            if name == "AVERAGE" and not self._evaluation.is_dry:
                raise FormulaError("#DIV/0!")
            return 0.0
        return _FUNCTIONS[name](values)

    def _numbers(self, addresses: list[str]) -> list[float]:
        """Numbers among the cells; texts and empty cells are skipped, as spreadsheets do in ranges."""
        values = []
        shared = self._evaluation
        shared.reads += len(addresses)
        if shared.reads > _MAX_READS:
            raise FormulaError("#REF!")
        for address in addresses:
            text = shared.cells.get(address, "")
            if text.startswith("="):
                if address not in shared.values:
                    shared.values[address] = _Parser(shared, text[1:], depth=self._depth + 1).value()
                values.append(shared.values[address])
            elif _NUMBER.fullmatch(text):
                values.append(float(text))
        return values


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    source = text.strip().upper()
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            raise FormulaError("#NAME?")
        tokens.append(match[match.lastindex or 0])
        at = match.end()
    if not tokens:
        raise FormulaError("#NAME?")
    return tokens
