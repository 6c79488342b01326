"""Recorded outcomes of several models on the same prompts, read from a CSV file or a pool.

A file has a header and one column of outcomes per model (``True``/``False``, ``1``/``0`` or a number in [0, 1]).
Optional: a family column, and for every model a column ``<model>_cost``. Other columns are ignored. Unusable lines
are skipped and reported with line number and reason. A line with a missing outcome is unusable, because the outcome
is neither a success nor a failure.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from upturn.errors import IngestError
from upturn.pool import Pool, Selection
from upturn.pool.ingestion import (
    COST_SUFFIXES,
    FAMILY_NAMES,
    LARGEST_COST,
    MISSING,
    RECORDED,
    detected_models,
    number,
    outcome,
)

NO_FAMILY = "all"
"""Family of all lines in a file without a family column."""

_SAMPLE = 1000
"""Number of lines that are read to detect the models' columns."""

_MAX_CELL = 2**31 - 1
"""Maximum characters in one cell; the csv module's default of 128 KiB is too small for model answers."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that was skipped."""

    line: int
    """Its first physical line in the file, from 1."""
    reason: str


@dataclass(frozen=True, slots=True)
class Recording:
    """The rewards of all models on all usable lines."""

    models: tuple[str, ...]
    families: tuple[str, ...]
    """One per line."""
    rewards: NDArray[np.float64]
    """Shape (lines, models), in [0, 1]."""
    costs: NDArray[np.float64] | None
    """Shape (lines, models), in the file's unit; None = some model has no cost column."""
    bad_lines: tuple[BadLine, ...]
    ignored_columns: tuple[str, ...]
    incomplete_tasks: int = 0
    """Number of tasks of a pool that are no lines, because a model has no score on them."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """The meaning of the columns, by their index."""

    header: tuple[str, ...]
    models: Mapping[str, int]
    costs: Mapping[str, int]
    """By model; empty = some model has no cost column."""
    family: int | None


@dataclass(frozen=True, slots=True)
class _Row:
    """One record of the file: its cells, or the problem with it."""

    line: int
    cells: tuple[str, ...]
    problem: str = ""


def read_recording(path: Path, *, models: Sequence[str] = (), family: str | None = None) -> Recording:
    """Reads the recording in a CSV file; raises IngestError if the whole file is unusable.

    ``models`` names the models' columns; empty = all columns with mostly outcomes, except those with well-known
    other names. ``family`` names the family column; None = the first of FAMILY_NAMES in the header.
    """
    if path.exists() and not path.is_file():
        raise IngestError(
            f"{str(path)!r} is not a regular file; it is read twice, so it cannot be a pipe or folder"
        )
    try:
        sample = list(islice(_rows(path), _SAMPLE + 1))
        layout = _layout(path, sample, models, family)
        return _recording(path, layout, islice(_rows(path), 1, None))
    except OSError as exc:
        raise IngestError(f"cannot read {str(path)!r}: {exc.strerror or exc}") from exc


def stored_recording(pool: Pool, *, tenant: str, models: Sequence[str] = (), family: str = "") -> Recording:
    """Returns the outcomes in a pool: a line is a task on which every model has a score.

    ``models`` names agent versions; empty = all of the tenant. ``family``: of the tasks; empty = all. Of several
    trajectories the mean score counts, and the mean cost where an imported table had costs. Raises IngestError for
    fewer than two models, and where no task has a score of all of them.
    """
    selection = Selection(families=(family,) if family else ())
    outcomes: dict[str, dict[str, list[tuple[float, float | None]]]] = {}
    families: dict[str, str] = {}
    for task, trajectory, evaluation in pool.experiences(selection, tenant=tenant, has_tokens=False):
        if evaluation is not None and evaluation.score is not None:
            families[task.id] = task.family
            of_task = outcomes.setdefault(task.id, {})
            pair = (evaluation.score, evaluation.costs.get(RECORDED))
            of_task.setdefault(trajectory.agent_version, []).append(pair)
    names = tuple(models) or tuple(sorted({name for of_task in outcomes.values() for name in of_task}))
    lines = [name for name, of_task in outcomes.items() if all(model in of_task for model in names)]
    if len(names) < 2 or not lines:
        scored = Counter(name for of_task in outcomes.values() for name in of_task)
        known = ", ".join(f"{name} ({count} tasks)" for name, count in sorted(scored.items()))
        raise IngestError(
            f"the pool has no task with scores of two or more models to compare; tenant {tenant!r} has scores of: "
            f"{known or 'none'}. Name models with common tasks with --models"
        )
    cells = [[outcomes[line][model] for model in names] for line in lines]
    costs = [[[cost for _, cost in cell if cost is not None] for cell in row] for row in cells]
    is_priced = all(known for row in costs for known in row)
    return Recording(
        models=names,
        families=tuple(families[line] for line in lines),
        rewards=np.array([[fmean(score for score, _ in cell) for cell in row] for row in cells], dtype=np.float64),
        costs=np.array([[fmean(known) for known in row] for row in costs]) if is_priced else None,
        bad_lines=(),
        ignored_columns=(),
        incomplete_tasks=len(outcomes) - len(lines),
    )


def _rows(path: Path) -> Iterator[_Row]:
    """Yields the non-empty records, the header first; invalid bytes become replacement characters."""
    limit = csv.field_size_limit(_MAX_CELL)
    try:
        with _open(path) as stream:
            reader = csv.reader(stream, delimiter=_delimiter(stream), strict=True)
            while True:
                line = reader.line_num + 1
                try:
                    cells = tuple(next(reader))
                except StopIteration:
                    return
                except csv.Error as exc:
                    yield _Row(line, (), f"not CSV: {exc}")
                    continue
                if any(cell.strip() for cell in cells):
                    yield _Row(line, cells)
    finally:
        csv.field_size_limit(limit)


def _open(path: Path) -> TextIO:
    with path.open("rb") as stream:
        is_utf16 = stream.read(2) in {b"\xff\xfe", b"\xfe\xff"}
    return path.open(encoding="utf-16" if is_utf16 else "utf-8-sig", errors="replace", newline="")


def _delimiter(stream: TextIO) -> str:
    """Returns the most frequent separator of the first line: comma, tab or semicolon."""
    first = stream.readline()
    stream.seek(0)
    return max(",\t;", key=first.count)


def _layout(path: Path, sample: Sequence[_Row], models: Sequence[str], family: str | None) -> _Layout:
    if not sample:
        raise IngestError(f"{str(path)!r} is empty; a header and at least one line are needed")
    if sample[0].problem:
        raise IngestError(f"the header of {str(path)!r} cannot be read: {sample[0].problem}")
    header = tuple(name.strip() for name in sample[0].cells)
    rows = [row.cells for row in sample[1:] if len(row.cells) == len(header)]
    if len(sample) == 1:
        raise IngestError(f"{str(path)!r} has a header and no line; at least one is needed")
    family_index = _family_column(header, family)
    columns = _named_models(header, models) if models else detected_models(header, rows, family_index)
    if not columns:
        raise IngestError(
            f"no column of {str(path)!r} has outcomes (True/False, 1/0 or numbers in [0, 1]); columns: "
            f"{', '.join(map(repr, header))}. Name the models' columns with --models"
        )
    data_like = [name for name in columns if outcome(name) is not None]
    if data_like:
        raise IngestError(f"the first line of {str(path)!r} looks like data ({data_like[0]!r}); a header is needed")
    costs = {
        name: index
        for name in columns
        for suffix in reversed(COST_SUFFIXES)
        for index, other in enumerate(header)
        if other == f"{name}{suffix}"
    }
    layout = _Layout(header, columns, costs if len(costs) == len(columns) else {}, family_index)
    occurrences = Counter(header)
    repeated = [header[index] for index in sorted(_used(layout)) if occurrences[header[index]] > 1]
    if repeated:
        name = repeated[0]
        raise IngestError(f"column {name!r} of {str(path)!r} appears {occurrences[name]} times; rename all but one")
    return layout


def _used(layout: _Layout) -> set[int]:
    """Returns the indices of the columns that are read."""
    used = {*layout.models.values(), *layout.costs.values()}
    return used if layout.family is None else used | {layout.family}


def _family_column(header: Sequence[str], family: str | None) -> int | None:
    """Returns the index of the family column; None = no such column."""
    if family is not None and family not in header:
        raise IngestError(f"no column {family!r} for the family; columns: {', '.join(map(repr, header))}")
    lowered = [name.lower() for name in header]
    if family is not None:
        return header.index(family)
    return next((lowered.index(name) for name in FAMILY_NAMES if name in lowered), None)


def _named_models(header: Sequence[str], models: Sequence[str]) -> dict[str, int]:
    unknown = [name for name in models if name not in header]
    if unknown:
        raise IngestError(f"no column {unknown[0]!r} for a model; columns: {', '.join(map(repr, header))}")
    return {name: header.index(name) for name in models}


def _recording(path: Path, layout: _Layout, rows: Iterator[_Row]) -> Recording:
    bad_lines: list[BadLine] = []
    families: list[str] = []
    rewards: list[list[float]] = []
    costs: list[list[float]] = []
    for row in rows:
        problem = row.problem or _problem(layout, row.cells)
        if problem:
            bad_lines.append(BadLine(row.line, problem))
            continue
        families.append(NO_FAMILY if layout.family is None else row.cells[layout.family].strip())
        rewards.append([outcome(row.cells[index]) or 0.0 for index in layout.models.values()])
        costs.append([float(row.cells[layout.costs[name]]) for name in layout.models if layout.costs])
    if not rewards:
        first = bad_lines[0]
        raise IngestError(
            f"none of the {len(bad_lines)} lines of {str(path)!r} is usable; line {first.line}: {first.reason}"
        )
    used = _used(layout)
    return Recording(
        models=tuple(layout.models),
        families=tuple(families),
        rewards=np.array(rewards, dtype=np.float64),
        costs=np.array(costs, dtype=np.float64) if layout.costs else None,
        bad_lines=tuple(bad_lines),
        ignored_columns=tuple(name for index, name in enumerate(layout.header) if index not in used),
    )


def _problem(layout: _Layout, cells: Sequence[str]) -> str:
    """Returns why a line is unusable; empty = it is usable."""
    if len(cells) != len(layout.header):
        return f"expected {len(layout.header)} cells, got {len(cells)}"
    for name, index in layout.models.items():
        if cells[index].strip().lower() in MISSING:
            return f"no outcome for {name!r}"
        if outcome(cells[index]) is None:
            return f"outcome of {name!r} must be True, False or a number in [0, 1], got {cells[index][:60]!r}"
    for name, index in layout.costs.items():
        cost = number(cells[index])
        if cost is None or not 0 <= cost <= LARGEST_COST:
            return f"cost of {name!r} must be a number from 0 to {LARGEST_COST:g}, got {cells[index][:60]!r}"
    if layout.family is not None and not cells[layout.family].strip():
        return "no family"
    return ""
