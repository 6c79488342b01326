"""Charts in .xlsx files, drawn from the cells that their ranges name.

The first columns of a range that hold no numbers are its labels (of a scatter chart: the first one, whatever it
holds), every other column is one series under its header.
What comes back is the range around all that the series name, so a chart over whole columns comes back as one over
those rows that are used.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from upturn.environments.office.formulas import FormulaError, parse
from upturn.environments.office.state import (
    MAX_COLUMNS,
    MAX_ROWS,
    Area,
    Chart,
    ChartKind,
    Position,
    Sheet,
    area_of,
    bounding_area,
    is_formula,
    parse_value,
)

_TYPES: dict[ChartKind, dict[str, str]] = {
    "bar": {"type": "column"},
    "line": {"type": "line"},
    "pie": {"type": "pie"},
    "scatter": {"type": "scatter", "subtype": "straight_with_markers"},
}
_KINDS: dict[str, ChartKind] = {
    "BarChart": "bar",
    "BarChart3D": "bar",
    "LineChart": "line",
    "LineChart3D": "line",
    "AreaChart": "line",
    "AreaChart3D": "line",
    "PieChart": "pie",
    "PieChart3D": "pie",
    "DoughnutChart": "pie",
    "ScatterChart": "scatter",
    "BubbleChart": "scatter",
}
"""By the class that the reading library gives them; others are left out."""
_HEIGHT = 16
"""Rows that a chart takes."""
_WIDTH = 10
"""Columns, at most."""
_FIXED = {"object_position": 3}
"""It neither moves nor shrinks with rows that a filter hides."""


class Home(NamedTuple):
    """Where a chart is drawn."""

    name: str
    """Of the sheet."""
    sheet: Sheet
    number: int
    """From 0: of the charts of the sheet."""


def put_chart(file: Any, target: Any, chart: Chart, *, home: Home) -> None:
    """Draws it to the right of what the sheet has, below the charts before it. ``file``, ``target``: the writing
    library's, which has no types."""
    area, used = _drawn(area_of(chart.range), home.sheet), home.sheet.used.area
    drawn = file.add_chart(dict(_TYPES[chart.kind]))
    labels = _labels(area, home.sheet, chart.kind)
    below = area.below(1) or area
    for column in range(area.first.column + labels, area.last.column + 1):
        series = {
            "name": [home.name, area.first.row - 1, column - 1],
            "values": [home.name, below.first.row - 1, column - 1, below.last.row - 1, column - 1],
        }
        if labels:
            left, right = area.first.column - 1, area.first.column + labels - 2
            series["categories"] = [home.name, below.first.row - 1, left, below.last.row - 1, right]
        drawn.add_series(series)
    drawn.set_title({"name": chart.title} if chart.title else {"none": True})
    drawn.set_style(10)
    if area.width - labels == 1 and chart.kind != "pie":
        drawn.set_legend({"none": True})
    column = 1 + (used.last.column if used is not None else 0)
    target.insert_chart(1 + home.number * _HEIGHT, min(column, MAX_COLUMNS - _WIDTH), drawn, _FIXED)


def _drawn(area: Area, sheet: Sheet) -> Area:
    """Whole columns are cut where the sheet's cells end; a million points are more than programs draw."""
    used = sheet.used.area
    if area.last.row < MAX_ROWS or used is None:
        return area
    return Area(area.first, Position(area.last.column, max(used.last.row, area.first.row + 1)))


def _labels(area: Area, sheet: Sheet, kind: ChartKind) -> int:
    """How many columns at the left hold labels; at least one is left for values."""
    count = 0
    for column in area.columns[:-1]:
        filled = sheet.filled(Area(Position(column, area.first.row + 1), Position(column, area.last.row)))
        texts = [sheet.cells[address] for _, address in filled]
        if any(is_formula(text) or isinstance(parse_value(text), float) for text in texts):
            break
        count += 1
    return 1 if kind == "scatter" and area.width > 1 else count


def charts_of(source: Any) -> Iterator[tuple[str, Chart]]:
    """A sheet's charts, each with the name of the sheet whose cells it draws; those that draw none are left out.

    ``source``: the reading library's sheet, which has no types.
    """
    for chart in source._charts:
        kind = _KINDS.get(type(chart).__name__)
        named = list(_named(chart))
        if kind is None or not named:
            continue
        name = named[0][0] or source.title
        areas = [area for sheet, area in named if (sheet or source.title) == name]
        yield name, Chart(kind, bounding_area(corner for area in areas for corner in area).text, _title(chart))


def _named(chart: Any) -> Iterator[tuple[str | None, Area]]:
    """All areas that the series name, with their sheets."""
    for series in chart.ser:
        for part in ("tx", "cat", "val", "xVal", "yVal"):
            source = getattr(series, part, None)
            for kind in ("strRef", "numRef", "multiLvlStrRef"):
                reference = getattr(source, kind, None)
                if reference is not None and reference.f:
                    yield from _read(reference.f)


def _read(text: str) -> Iterator[tuple[str | None, Area]]:
    try:
        references = parse(f"={text}").references
    except FormulaError:
        return
    yield from ((reference.sheet, reference.area) for reference in references)


def _title(chart: Any) -> str:
    text = None if chart.title is None else chart.title.tx
    if text is None or text.rich is None:
        return ""
    return "\n".join("".join(run.t for run in paragraph.r or ()) for paragraph in text.rich.p)
