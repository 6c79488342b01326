"""Tables of outcomes: which column means what, and what a cell says.

Two shapes are read. In a *long* table each row is the outcome of one model on one task: columns for the task, the
model and the score. In a *wide* table each row is a task, with a column of outcomes for each model and perhaps
columns such as ``<model>_cost``.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

from upturn.errors import IngestError
from upturn.pool.ingestion.formats.known_keys import nearest_key

FAMILY_NAMES = ("family", "category", "subject", "eval_name")
"""Names of the family column of a wide table; the first one in the header is used."""

MISSING = frozenset({"", "nan", "na", "n/a", "none", "null"})
"""Cells without a value, in lower case."""

LARGEST_COST = 1e100
"""In any currency; sums of larger costs would overflow."""

COST_SUFFIXES = ("_cost", "|total_cost", "_total_cost")
_RESPONSE_SUFFIXES = ("_response", "_responses", "_output", "_answer", "_model_response", "|model_response")
_LATENCY_SUFFIXES = ("_latency", "_seconds")
_OTHER_SUFFIXES = (*_RESPONSE_SUFFIXES, *_LATENCY_SUFFIXES, "_tokens")

_OTHER_COLUMNS = frozenset(
    {"", "id", "idx", "index", "sample_id", "prompt", "question", "query", "instruction", "input", "text"}
    | {"answer", "label", "target", "gold", "reference", "seed", "level", "difficulty", *FAMILY_NAMES}
)
"""Columns that are no model's, although their cells may look like outcomes."""

_WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "pass": 1.0, "fail": 0.0}
_WORDS |= {"passed": 1.0, "failed": 0.0, "correct": 1.0, "incorrect": 0.0, "success": 1.0, "failure": 0.0}

FIELDS: Mapping[str, tuple[str, ...]] = {
    "task_id": (
        *("task_id", "example_id", "sample_id", "item_id", "question_id", "problem_id", "instance_id", "doc_id"),
        *("prompt_id", "task", "task_name", "item", "example", "id"),
    ),
    "prompt": ("prompt", "question", "query", "instruction", "input", "problem", "text"),
    "model": ("model", "model_name", "model_id", "agent", "agent_name", "llm", "engine"),
    "score": ("score", "reward", "accuracy", "acc", "grade", "outcome", "result", "quality"),
    "success": ("success", "is_success", "correct", "is_correct", "passed", "pass", "resolved"),
    "cost": ("cost", "cost_usd", "usd", "total_cost", "total_cost_usd", "price", "price_usd"),
    "seconds": (
        *("latency", "latency_s", "latency_seconds", "seconds", "duration", "duration_s", "duration_seconds"),
        *("elapsed", "elapsed_s", "elapsed_seconds"),
    ),
    "milliseconds": ("latency_ms", "duration_ms", "elapsed_ms", "milliseconds"),
    "prompt_tokens": ("prompt_tokens", "input_tokens", "tokens_in", "n_prompt_tokens"),
    "written_tokens": (
        *("completion_tokens", "output_tokens", "tokens_out", "written_tokens", "generated_tokens"),
        "n_completion_tokens",
    ),
    "total_tokens": ("total_tokens", "tokens"),
    "response": (
        "response",
        "output",
        "completion",
        "generation",
        "model_response",
        "model_output",
        "response_text",
    ),
    "family": (*FAMILY_NAMES, "domain", "topic", "dataset", "benchmark", "task_family", "task_type"),
    "time": ("time", "timestamp", "date", "datetime", "created_at", "recorded_at", "started_at", "created"),
    "trial": ("trial", "attempt", "repeat", "epoch", "repetition"),
    "identity": ("trajectory_id", "result_id", "record_id", "uuid"),
}
"""Names of the columns of a long table, by what they mean; of several in one header the first listed is used."""

_TASK_NAMES = ("task", "task_name")
"""Name the task, or beside an id of the task its family."""

_FIELD_OF = {name: field for field, names in FIELDS.items() for name in names}


class Columns(NamedTuple):
    """The columns of one outcome in each row, by what they mean (``FIELDS``)."""

    model: str
    """Name of the model; empty = the column ``model`` has it, or no column does."""
    by_field: Mapping[str, str]


class Layout(NamedTuple):
    """The columns of a table."""

    outcomes: tuple[Columns, ...]
    """One for a long table, one for each model of a wide one."""
    other: tuple[str, ...]
    """Columns of other meanings; their values are kept."""


def layout_of(header: Sequence[str], rows: Iterable[Mapping[str, str]], *, has_agent: bool) -> Layout:
    """Returns what the columns mean; raises IngestError with the reason.

    ``rows``: the first ones. ``has_agent``: a long table needs no column for the model.
    """
    fields = _fields(header)
    is_judged = bool(fields.keys() & {"score", "success"})
    if is_judged and ("model" in fields or has_agent):
        return _long(header, fields)
    cells = [[row.get(name, "") for name in header] for row in rows]
    models = [name for name in detected_models(header, cells) if plain_name(name) not in _FIELD_OF]
    if not models or "model" in fields:
        raise IngestError(
            f"no outcomes in the columns {', '.join(map(repr, header))}: one row per task and model needs columns "
            "for the task, the model and the score; one row per task needs a column of outcomes (0 to 1, true or "
            "false) for each model"
        )
    return _wide(header, fields, models)


def _fields(header: Sequence[str]) -> dict[str, str]:
    """Returns the column of each meaning; raises IngestError for two columns with scores."""
    by_name: dict[str, list[str]] = {}
    for column in header:
        by_name.setdefault(plain_name(column), []).append(column)
    fields: dict[str, str] = {}
    for field, names in FIELDS.items():
        columns = [column for name in names for column in by_name.get(name, ())]
        if field in ("score", "success", "cost", "model") and len(columns) > 1:
            raise IngestError(f"the columns {' and '.join(map(repr, columns))} both mean the {field}; rename one")
        if columns:
            fields[field] = columns[0]
    if "prompt" in fields and plain_name(fields.get("task_id", "")) == "id":
        del fields["task_id"]  # of the row, perhaps: the prompt says which rows are of one task
    tasks = [column for name in _TASK_NAMES for column in by_name.get(name, ())]
    if tasks and "family" not in fields and fields.get("task_id", tasks[0]) != tasks[0]:
        fields["family"] = tasks[0]
    return fields


def plain_name(column: str) -> str:
    """Returns the name in lower case with ``_`` between its words: ``Cost (USD)`` is ``cost_usd``."""
    return re.sub(r"\W+", "_", column.casefold()).strip("_")


def _long(header: Sequence[str], fields: Mapping[str, str]) -> Layout:
    if not fields.keys() & {"task_id", "prompt"}:
        raise IngestError(
            f"no column for the task in {', '.join(map(repr, header))}; name one task, task_id or prompt"
        )
    other = tuple(column for column in header if column not in fields.values() and not _is_index(column))
    unused = frozenset(name for name, field in _FIELD_OF.items() if field not in fields)
    for column in other:
        nearest = nearest_key(plain_name(column), unused)
        if nearest is not None:
            raise IngestError(f"unknown column {column!r}: did you mean {nearest!r}? Rename it")
    return Layout((Columns("", fields),), other)


def _wide(header: Sequence[str], fields: Mapping[str, str], models: Collection[str]) -> Layout:
    shared = {name: column for name, column in fields.items() if name in ("task_id", "prompt", "family", "time")}
    if not shared.keys() & {"task_id", "prompt"}:
        raise IngestError(
            f"no column for the task in {', '.join(map(repr, header))}; name one task, task_id or prompt"
        )
    outcomes: list[Columns] = []
    for model in models:
        parts = {"score": (model,)} | {
            field: tuple(f"{model}{suffix}" for suffix in suffixes)
            for field, suffixes in (
                ("cost", COST_SUFFIXES),
                ("response", _RESPONSE_SUFFIXES),
                ("seconds", _LATENCY_SUFFIXES),
            )
        }
        found = {field: next((name for name in names if name in header), "") for field, names in parts.items()}
        outcomes.append(Columns(model, {**shared, **{field: name for field, name in found.items() if name}}))
    used = {column for columns in outcomes for column in columns.by_field.values()}
    return Layout(tuple(outcomes), tuple(name for name in header if name not in used and not _is_index(name)))


def _is_index(column: str) -> bool:
    """Whether the column has row numbers, as pandas writes them."""
    return not column.strip() or column.startswith("Unnamed:")


def detected_models(
    header: Sequence[str], rows: Sequence[Sequence[str]], family: int | None = None
) -> dict[str, int]:
    """Returns the columns with outcomes in at least half of the filled cells, without well-known other names.

    ``family``: index of the family column; None = it has a well-known name, or there is none.
    """
    detected: dict[str, int] = {}
    for index, name in enumerate(header):
        is_known = name.lower() in _OTHER_COLUMNS or _is_index(name)
        if index == family or is_known or _belongs_to_another(name, header):
            continue
        cells = [row[index] for row in rows if row[index].strip().lower() not in MISSING]
        if cells and 2 * sum(outcome(cell) is not None for cell in cells) >= len(cells):
            detected[name] = index
    return detected


def _belongs_to_another(name: str, header: Sequence[str]) -> bool:
    """Returns True for e.g. ``<model>_response`` if ``<model>`` is also a column."""
    for other in header:
        rest = name.removeprefix(other) if other and name != other else name
        if rest != name and (rest.startswith("|") or rest in COST_SUFFIXES or rest in _OTHER_SUFFIXES):
            return True
    return False


def outcome(cell: str) -> float | None:
    """Returns the cell's outcome in [0, 1]; None = it has no outcome."""
    text = cell.strip().lower()
    value = _WORDS[text] if text in _WORDS else number(text)
    return value if value is not None and 0 <= value <= 1 else None


def number(text: str) -> float | None:
    """Returns a finite number; None = it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None
