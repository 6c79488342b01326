"""Conversion of records to table rows and back.

A trajectory's turns and token rows have columns of their own, so that statistics do not read them; the rest is in
``fields``. Token rows are packed (``tokens``). Two records are equal if the digests of their rows are. The digest
covers everything except a trajectory's wall-clock seconds, which a repeated rollout cannot reproduce; that of token
rows is of their JSON.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from pydantic_core import PydanticSerializationError, from_json
from sqlalchemy import Table

from upturn.errors import RecordError
from upturn.pool import schema
from upturn.pool.tokens import TokenBlob, has_only_floats, pack_rows, pack_text, pack_unread, serializer
from upturn.records import (
    AgentLimits,
    AgentVersion,
    Call,
    CallContent,
    Decision,
    Evaluation,
    Feedback,
    Release,
    Run,
    Snapshot,
    Task,
    TokenRow,
    Trajectory,
    Turn,
    Usage,
    fields_json,
    from_fields,
    is_suspect,
    serialization_problem,
)

PoolRecord: TypeAlias = (
    Task
    | Decision
    | Call
    | CallContent
    | Trajectory
    | Evaluation
    | Feedback
    | AgentVersion
    | Snapshot
    | Release
    | Run
    | AgentLimits
)
"""A record that the pool stores."""

Values = dict[str, str | int | float | bytes | None]
"""Column values by column name."""

_LARGEST_INTEGER = 2**31 - 1
"""Maximum of the portable INTEGER column."""


class Kind(NamedTuple):
    """The storage of one class of record."""

    table: Table
    columns: Callable[[Any], Values]
    """Values of the columns for queries, except a tenant that the record inherits."""


def _dump(record: Any, part: object, shape: Any, *, exclude: Any = None) -> str:
    """Returns ``part`` of the record as JSON; raises RecordError for values that cannot be read back."""
    try:
        text = serializer(shape).to_json(part, exclude=exclude, warnings="error").decode()
    except PydanticSerializationError as exc:
        raise RecordError(
            f"{type(record).__name__} {record.id!r} cannot be written as JSON: {serialization_problem(exc)}"
        ) from exc
    if is_suspect(text):
        fields_json(record)  # raises for values that cannot be read back
    return text


def is_tool_use(target: str) -> bool:
    """Returns True if an action with this target uses a tool; a message to the user does not."""
    return target != "user"


def _copied(*names: str) -> Callable[[Any], Values]:
    """Returns a function that copies these fields of a record to columns of the same names."""
    return lambda record: {name: getattr(record, name) for name in names}


_DECISION_FIELDS = _copied("tenant", "task_id", "family", "chosen", "propensity", "episode", "arm")
_TRAJECTORY_FIELDS = _copied("task_id", "agent_version", "origin", "outcome")


def _trajectory_columns(trajectory: Trajectory) -> Values:
    return _TRAJECTORY_FIELDS(trajectory) | {
        "turn_count": len(trajectory.turns),
        "tool_turns": sum(turn.action is not None and is_tool_use(turn.action.target) for turn in trajectory.turns),
        # numpy numbers are valid in JSON, but SQLite would store their bytes.
        "prompt_tokens": int(trajectory.usage.prompt_tokens),
        "written_tokens": int(trajectory.usage.written_tokens),
        "seconds": float(trajectory.usage.seconds),
    }


class StoredCache(NamedTuple):
    """The cache tokens of a stored trajectory; a server may report more of them than of the prompt."""

    read: int
    write: int
    write_1h: int


def cache_tokens(fields: str, prompt_tokens: int) -> StoredCache:
    """Returns those in the stored fields of a trajectory, at most as many as its prompts have."""
    stored = from_json(fields)
    read = min(stored.get("cached_tokens", 0), prompt_tokens)
    write = min(stored.get("cache_write_tokens", 0), prompt_tokens - read)
    return StoredCache(read, write, min(stored.get("cache_write_1h_tokens", 0), write))


KINDS: Mapping[type[Any], Kind] = {
    Task: Kind(schema.tasks, _copied("tenant", "family", "environment", "split", "level")),
    Decision: Kind(
        schema.decisions, lambda decision: _DECISION_FIELDS(decision) | {"release_id": decision.release}
    ),
    Call: Kind(schema.calls, _copied("tenant", "episode", "agent_version", "status", "key", "prefix", "cost_usd")),
    CallContent: Kind(schema.call_contents, _copied("tenant")),
    Trajectory: Kind(schema.trajectories, _trajectory_columns),
    Evaluation: Kind(schema.evaluations, _copied("task_id", "trajectory_id", "evaluator", "verdict", "score")),
    Feedback: Kind(schema.feedback, _copied("tenant", "subject_kind", "subject_id", "metric", "value")),
    AgentVersion: Kind(schema.agent_versions, _copied("agent", "kind")),
    Snapshot: Kind(schema.snapshots, _copied()),
    Release: Kind(schema.releases, _copied("agent", "candidate", "state")),
    Run: Kind(schema.runs, _copied("command", "state")),
    AgentLimits: Kind(schema.agent_limits, _copied()),
}
"""By class, in the order of writing."""


class ReadyRow(NamedTuple):
    """The row of a record that is stored later."""

    table: Table
    values: Values
    blobs: tuple[TokenBlob, ...] = ()
    """What a trajectory's ``tokens`` refer to."""


def ready_row(record: PoolRecord, *, recorded_at: float | None = None) -> ReadyRow:
    """Returns the record's row, without sequence, and without a tenant that it inherits.

    ``recorded_at``: when another pool stored it; None = it is new, and gets the time when it is stored.
    Raises RecordError for integers that a column cannot hold, and for values that cannot be read back. The latter
    is tested by reading the row, since an unreadable record would break every read of the pool.
    """
    kind, blobs = KINDS[type(record)], tuple[TokenBlob, ...]()
    if isinstance(record, Trajectory):
        values, blobs = _trajectory_values(record)
    else:
        text = fields_json(record)
        from_fields(type(record), text)
        values = {"id": record.id, "fields": text, "digest": digest(text)}
    columns = kind.columns(record)
    for name, value in columns.items():
        if isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
            raise RecordError(
                f"{name} of {record.id!r} must be at most {_LARGEST_INTEGER}, got one of {value.bit_length()} bits"
            )
    if recorded_at is not None:
        columns["recorded_at"] = recorded_at
    return ReadyRow(kind.table, columns | values, blobs)


def _trajectory_values(trajectory: Trajectory) -> tuple[Values, tuple[TokenBlob, ...]]:
    turns = _dump(trajectory, trajectory.turns, tuple[Turn, ...])
    rows = _dump(trajectory, trajectory.rows, tuple[TokenRow, ...])
    rest = _dump(trajectory, trajectory, Trajectory, exclude={"turns", "rows", "usage"})
    usage = _dump(trajectory, trajectory.usage, Usage)
    packed = pack_unread(trajectory.rows, rows) if trajectory.rows else None
    read_back = from_fields(Trajectory, _joined(turns, "[]" if packed else rows, usage, rest))
    tokens = f"{trajectory.usage.prompt_tokens} {trajectory.usage.written_tokens}"
    hashed = digest(turns, rows, rest, tokens)
    values: Values = {"id": trajectory.id, "turns": turns, "tokens": None, "fields": rest, "digest": hashed}
    if packed is None and not read_back.rows:
        return values, ()
    if packed is None:
        packed = pack_rows(read_back.rows, rows) if has_only_floats(trajectory.rows) else pack_text(rows)
    return values | {"tokens": packed.data}, packed.blobs


def digest(*texts: str) -> str:
    """Returns the hexadecimal SHA-256 of the texts and their lengths; text that is not Unicode is allowed."""
    hasher = hashlib.sha256()
    for text in texts:
        encoded = text.encode(errors="surrogatepass")
        hasher.update(len(encoded).to_bytes(8, "big"))
        hasher.update(encoded)
    return hasher.hexdigest()


def trajectory_of(row: Any, rows: tuple[TokenRow, ...] = ()) -> Trajectory:
    """Returns the trajectory of a table's row with these token rows."""
    usage = (
        f'{{"prompt_tokens":{row.prompt_tokens},"written_tokens":{row.written_tokens},"seconds":{row.seconds!r}}}'
    )
    trajectory = from_fields(Trajectory, _joined(row.turns, "[]", usage, row.fields))
    return replace(trajectory, rows=rows) if rows else trajectory


def _joined(turns: str, rows: str, usage: str, rest: str) -> str:
    """Returns a trajectory's JSON from its parts."""
    return f'{{"turns":{turns},"rows":{rows},"usage":{usage},{rest.removeprefix("{")}'
