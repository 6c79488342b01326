"""Workbooks: sheets of cells with formats, charts and pivot tables."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from upturn.records import record

ChartKind = Literal["bar", "line", "pie", "scatter"]
Aggregate = Literal["sum", "average", "count", "max", "min"]


@record
class CellFormat:
    """How a range looks; None = as it is by default."""

    is_bold: bool | None = None
    is_italic: bool | None = None
    fill: str | None = None
    """Six hex digits, red first."""
    number: str | None = None
    """``0``, ``0.00``, ``0%``, ``#,##0``, ``yyyy-mm-dd``."""


@record
class Chart:
    """A picture of a range."""

    kind: ChartKind
    range: str
    """``A1:B7``, its first row being the header."""
    title: str = ""


@record
class Pivot:
    """A summary of a range by one of its columns."""

    source: str
    """``A1:D20``, its first row being the header."""
    rows: str
    """Header of the column whose values become rows."""
    values: str
    """Header of the column that is summarised."""
    how: Aggregate
    at: str
    """The cell that its own header begins in."""


@record
class Sheet:
    """One page of cells."""

    cells: Mapping[str, str]
    """By address, such as ``B3``; a value that begins with ``=`` is a formula. Empty cells are not there."""
    formats: Mapping[str, CellFormat] = field(default_factory=dict)
    """By range."""
    charts: tuple[Chart, ...] = ()
    pivots: tuple[Pivot, ...] = ()
    filters: Mapping[str, str] = field(default_factory=dict)
    """By column letter: only rows that show this are shown."""


@record
class Book:
    """A workbook."""

    sheets: Mapping[str, Sheet]
