"""Charts in .xlsx files, drawn from the cells of their ranges.

The leading columns without numbers are labels (in a scatter chart the first column always is); every other column
is a series under its header. Reading gives the smallest range around all series, so a chart of whole columns
becomes one of the used rows.
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
"""By the reading library's class; other charts are skipped."""
_HEIGHT = 16
"""Rows covered by a chart."""
_WIDTH = 10
"""Most columns covered by a chart."""
_FIXED = {"object_position": 3}
"""The chart neither moves nor shrinks when a filter hides rows."""


class ChartPosition(NamedTuple):
    """The sheet of a chart and its number there."""

    name: str
    """Name of the sheet."""
    sheet: Sheet
    number: int
    """From 0, among the charts of the sheet."""


def put_chart(file: Any, target: Any, chart: Chart, *, at: ChartPosition) -> None:
    """Draws the chart to the right of the sheet's cells, below earlier charts. ``file``, ``target``: objects of the
    writing library, which has no types."""
    area, used = _cut_to_used(area_of(chart.range), at.sheet), at.sheet.used.area
    drawn = file.add_chart(dict(_TYPES[chart.kind]))
    labels = _label_columns(area, at.sheet, chart.kind)
    below = area.below(1) or area
    for column in range(area.first.column + labels, area.last.column + 1):
        series = {
            "name": [at.name, area.first.row - 1, column - 1],
            "values": [at.name, below.first.row - 1, column - 1, below.last.row - 1, column - 1],
        }
        if labels:
            left, right = area.first.column - 1, area.first.column + labels - 2
            series["categories"] = [at.name, below.first.row - 1, left, below.last.row - 1, right]
        drawn.add_series(series)
    drawn.set_title({"name": chart.title} if chart.title else {"none": True})
    drawn.set_style(10)
    if area.width - labels == 1 and chart.kind != "pie":
        drawn.set_legend({"none": True})
    column = 1 + (used.last.column if used is not None else 0)
    target.insert_chart(1 + at.number * _HEIGHT, min(column, MAX_COLUMNS - _WIDTH), drawn, _FIXED)


def _cut_to_used(area: Area, sheet: Sheet) -> Area:
    """The area with whole columns cut to the used rows, since programs cannot draw a million points."""
    used = sheet.used.area
    if area.last.row < MAX_ROWS or used is None:
        return area
    return Area(area.first, Position(area.last.column, max(used.last.row, area.first.row + 1)))


def _label_columns(area: Area, sheet: Sheet, kind: ChartKind) -> int:
    """The number of leading label columns; at least one column is left for values."""
    count = 0
    for column in area.columns[:-1]:
        filled = sheet.filled(Area(Position(column, area.first.row + 1), Position(column, area.last.row)))
        texts = [sheet.cells[address] for _, address in filled]
        if any(is_formula(text) or isinstance(parse_value(text), float) for text in texts):
            break
        count += 1
    return 1 if kind == "scatter" and area.width > 1 else count


def charts_of(source: Any) -> Iterator[tuple[str, Chart]]:
    """A sheet's charts, each with the name of the sheet whose cells it draws; charts without cells are skipped.

    ``source``: the sheet in the reading library, which has no types.
    """
    for chart in source._charts:
        kind = _KINDS.get(type(chart).__name__)
        named = list(_series_areas(chart))
        if kind is None or not named:
            continue
        name = named[0][0] or source.title
        areas = [area for sheet, area in named if (sheet or source.title) == name]
        yield name, Chart(kind, bounding_area(corner for area in areas for corner in area).text, _title(chart))


def _series_areas(chart: Any) -> Iterator[tuple[str | None, Area]]:
    """All areas of the series, with their sheets."""
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
