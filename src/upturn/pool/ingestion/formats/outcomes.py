"""Tables of outcomes: CSV with a header, or JSON lines with the same names; see ``outcome_columns``.

A row says how well a model did on a task, and perhaps its cost, time, tokens and answer. With an answer the
trajectory has one turn, without it none. A score that is missing is a missing evaluation; a cell that cannot be
read makes the row unusable.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, islice
from typing import Any, BinaryIO, NamedTuple

from pydantic_core import from_json, to_json

from upturn.errors import IngestError
from upturn.pool.ingestion.formats.conversation import (
    Conversation,
    Defaults,
    Line,
    LineError,
    Lines,
    OpenFile,
    parse_name,
    parse_number,
    parse_turns,
)
from upturn.pool.ingestion.formats.json_text import LONGEST_LINE, json_objects
from upturn.pool.ingestion.formats.outcome_columns import (
    LARGEST_COST,
    MISSING,
    Columns,
    layout_of,
    number,
    outcome,
)
from upturn.pool.ingestion.recording import DamagedFileError
from upturn.records import JsonValue, Observation, Usage

_SAMPLE = 1000
"""Rows that are read to detect the columns."""
_SEPARATORS = ",;\t|"
_MOST_SECONDS = 1e11
"""A larger number of a time is in milliseconds."""


class _Row(NamedTuple):
    line: int
    """Its first line in the file, from 1."""
    cells: dict[str, str] | LineError
    text: bytes


def read_outcomes(open_file: OpenFile, defaults: Defaults) -> Lines:
    """Yields the rows. Raises OSError, and IngestError for a table without the columns that it needs."""
    with open_file() as file:
        start = file.peek(64)[:64].lstrip(b"\xef\xbb\xbf \t\r\n")  # type: ignore[attr-defined]  # it is buffered
        rows = _json_rows(file) if start.startswith((b"{", b"[")) else _csv_rows(file)
        sample = list(islice(rows, _SAMPLE))
        usable = [row.cells for row in sample if not isinstance(row.cells, LineError)]
        header = list(dict.fromkeys(name for cells in usable for name in cells))
        has_agent = defaults.agent != Defaults().agent
        layout = layout_of(header, usable, has_agent=has_agent) if usable else None
        for row in chain(sample, rows):
            try:
                if isinstance(row.cells, LineError):
                    raise row.cells
                assert layout is not None  # a usable row is in the sample, or the sample is all
                found = [_conversation(row.cells, columns, layout.other, defaults) for columns in layout.outcomes]
                yield Line(row.line, found[0], row.text, tuple(found[1:]))
            except LineError as exc:
                yield Line(row.line, exc, row.text)


def has_outcomes(file: BinaryIO) -> bool:
    """Whether the file is a CSV table with columns of outcomes."""
    try:
        rows = [row.cells for row in islice(_csv_rows(file), _SAMPLE)]
        usable = [cells for cells in rows if not isinstance(cells, LineError)]
        return bool(usable) and bool(layout_of(list(usable[0]), usable, has_agent=True))
    except IngestError:
        return False


def _json_rows(file: BinaryIO) -> Iterator[_Row]:
    for line, text in json_objects(file):
        if isinstance(text, LineError):
            yield _Row(line, text, b"")
            continue
        try:
            row = from_json(text, allow_inf_nan=False)
        except ValueError as exc:
            yield _Row(line, LineError(f"not JSON: {exc}"), text)
            continue
        is_row = isinstance(row, dict)
        cells = {str(name): _cell(value) for name, value in row.items()} if is_row else LineError("not an object")
        yield _Row(line, cells, text)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value).decode()


class _Recorder:
    """The lines of a file as text, and what they are made of."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.taken = bytearray()
        """Bytes since they were last cleared."""

    def __iter__(self) -> Iterator[str]:
        while line := self._file.readline(LONGEST_LINE + 1):
            self.taken += line
            if len(line) > LONGEST_LINE:
                while line and not line.endswith(b"\n"):
                    line = self._file.readline(LONGEST_LINE)
                raise csv.Error(f"the line is longer than {LONGEST_LINE} bytes; the rest of the file is not read")
            yield line.decode("utf-8", "surrogateescape")


def _csv_rows(file: BinaryIO) -> Iterator[_Row]:
    """Yields the rows after the header that are not empty; raises IngestError for a header that is none."""
    first = file.readline(LONGEST_LINE + 1).removeprefix(b"\xef\xbb\xbf")
    dialect = _dialect(first.decode("utf-8", "replace"))
    lines = _Recorder(file)
    limit = csv.field_size_limit(LONGEST_LINE)
    try:
        text = chain([first.decode("utf-8", "surrogateescape")], lines)
        reader = csv.reader(text, strict=True, **dialect)
        header = [name.strip() for name in _next(reader) or ()]
        repeated = {name for name in header if name and header.count(name) > 1}
        if repeated:
            raise IngestError(f"the column {min(repeated)!r} appears twice in the header; rename one")
        while True:
            lines.taken.clear()
            line = reader.line_num + 1
            try:
                values = _next(reader)
            except csv.Error as exc:
                yield _Row(line, LineError(f"not CSV: {exc}"), bytes(lines.taken))
                continue
            if values is None:
                return
            if any(value.strip() for value in values):
                yield _row(line, header, values, bytes(lines.taken))
    except csv.Error as exc:
        raise IngestError(f"the header cannot be read: {exc}") from exc
    except DamagedFileError as exc:
        yield _Row(reader.line_num + 1, LineError(f"{exc}; the rest of the file is not read"), b"")
    finally:
        csv.field_size_limit(limit)


def _next(reader: Iterator[list[str]]) -> list[str] | None:
    """Returns the next row; None = there is none."""
    return next(reader, None)


def _row(line: int, header: list[str], values: list[str], text: bytes) -> _Row:
    if len(values) != len(header):
        return _Row(line, LineError(f"expected {len(header)} cells, got {len(values)}"), text)
    cells = dict(zip(header, values, strict=True))
    joined = "".join(values)
    if not joined.isascii() and any("\ud800" <= character <= "\udfff" for character in joined):
        return _Row(line, LineError("the row is not UTF-8; save the file as UTF-8"), text)
    # As JSON, so that the row alone can be repaired and imported.
    return _Row(line, cells, json.dumps(cells, ensure_ascii=False).encode())


def _dialect(header: str) -> dict[str, Any]:
    """Returns the separator that gives the header most cells, and its quotation mark."""
    quote = "'" if header.startswith("'") else '"'
    counts = {
        separator: len(next(csv.reader([header], delimiter=separator, quotechar=quote), []))
        for separator in _SEPARATORS
    }
    return {"delimiter": max(counts, key=lambda separator: counts[separator]), "quotechar": quote}


def _conversation(
    cells: Mapping[str, str], columns: Columns, other: tuple[str, ...], defaults: Defaults
) -> Conversation:
    values = {field: cells.get(name, "") for field, name in columns.by_field.items()}
    filled = {field: value for field, value in values.items() if value.strip().lower() not in MISSING}
    prompt, task_id = values.get("prompt", ""), filled.get("task_id", "").strip()
    if not prompt.strip() and not task_id:
        raise LineError("no task: the cell is empty")
    instruction = prompt or f"task {task_id}"
    answer = values.get("response", "")
    messages = [{"role": "user", "content": instruction}, {"role": "assistant", "content": answer}]
    turns, final = parse_turns(messages) if answer else ((), Observation(""))
    score = _outcome(filled, "score")
    success = _outcome(filled, "success")
    score = success if score is None else score
    unknown = {name: cells[name] for name in other if cells.get(name, "").strip()}
    extra: dict[str, JsonValue] = dict(unknown)
    if "time" in filled:
        extra["time"] = _time(filled["time"])
    if total := _count(filled, "total_tokens"):
        extra["total_tokens"] = total
    model = columns.model or filled.get("model", "").strip()
    if not model and "model" in columns.by_field:
        raise LineError("no model: the cell is empty")
    cost, trial = _amount(filled, "cost"), parse_number(_count(filled, "trial"))
    identity = parse_name(filled["identity"].strip(), "id") if "identity" in filled else None
    name = "" if not task_id else f"id {_name(task_id, 'task')}"
    return Conversation(
        task_key=name or f"text {prompt}",
        family=_name(filled.get("family", "").strip() or defaults.family or "outcomes", "family"),
        instruction=instruction,
        agent=_name(model or defaults.agent, "model"),
        number=trial,
        turns=turns,
        final_observation=final,
        reward=score,
        is_success=success >= 1 if success is not None else None if score is None else score >= 1,
        identity=identity,
        extra=extra,
        unknown=tuple(unknown),
        usage=_usage(filled),
        cost=cost,
        # Without turns, two outcomes of a model on a task are told apart by what they say.
        mark=f"{score} {success} {cost}" if trial is None and identity is None else "",
    )


def _name(text: str, what: str) -> str:
    return parse_name(text, what) or ""


def _usage(filled: Mapping[str, str]) -> Usage:
    seconds, milliseconds = _amount(filled, "seconds"), _amount(filled, "milliseconds")
    prompt, written = _count(filled, "prompt_tokens"), _count(filled, "written_tokens")
    return Usage(prompt or 0, written or 0, seconds if seconds is not None else (milliseconds or 0.0) / 1000)


def _outcome(filled: Mapping[str, str], field: str) -> float | None:
    if field not in filled:
        return None
    value = outcome(_decimal(filled[field]))
    if value is None:
        raise LineError(f"{field} must be true, false or a number from 0 to 1, got {filled[field]!r:.80}")
    return value


def _amount(filled: Mapping[str, str], field: str) -> float | None:
    """Returns a cost or a time; None = it is missing. Raises LineError."""
    if field not in filled:
        return None
    value = number(_decimal(filled[field]).removeprefix("$"))
    if value is None or not 0 <= value <= LARGEST_COST:
        raise LineError(f"{field} must be a number from 0, got {filled[field]!r:.80}")
    return value


def _count(filled: Mapping[str, str], field: str) -> int | None:
    """Returns a whole number; None = it is missing. Raises LineError."""
    if field not in filled:
        return None
    value = number(filled[field])
    if value is None or value < 0 or not value.is_integer() or value >= 2**53:
        raise LineError(f"{field} must be a whole number from 0, got {filled[field]!r:.80}")
    return int(value)


def _decimal(text: str) -> str:
    """Returns a number with a decimal comma with a point."""
    text = text.strip()
    whole, comma, part = text.partition(",")
    return f"{whole}.{part}" if comma and part.isdigit() and whole.lstrip("-").isdigit() else text


@lru_cache(maxsize=4096)
def _time(text: str) -> str:
    """Returns a time as ISO 8601 in UTC; raises LineError."""
    value = number(text)
    try:
        if value is not None:
            moment = datetime.fromtimestamp(value / 1000 if value > _MOST_SECONDS else value, UTC)
        else:
            moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError, OSError) as exc:
        raise LineError(f"time must be ISO 8601 or seconds since 1970, got {text!r:.80}") from exc
