"""Records as table rows and back.

A trajectory's turns and token rows have separate columns, so that statistics read neither; the rest is in
``fields``. A row's digest decides whether two records are equal; it covers all but a trajectory's wall-clock
seconds, which a repeated rollout cannot reproduce.
"""

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter
from pydantic_core import CoreConfig, PydanticSerializationError, SchemaSerializer
from sqlalchemy import Table

from upturn.errors import RecordError
from upturn.pool import schema
from upturn.records import (
    AgentVersion,
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

RecordT = TypeVar("RecordT")

Values = dict[str, str | int | float | None]
"""Column values by column name."""

_LARGEST_INTEGER = 2**31 - 1
"""Of the portable INTEGER column."""


class Kind(NamedTuple):
    """How one class of record is stored."""

    table: Table
    columns: Callable[[Any], Values]
    """The columns beside id, fields, digest, sequence and recorded_at that the record itself can fill."""


@cache
def _serializer(shape: Any) -> SchemaSerializer:
    # As the records' own codec, for parts of a record: without it a NaN inside a JsonValue would become null.
    return SchemaSerializer(TypeAdapter(shape).core_schema, CoreConfig(ser_json_inf_nan="constants"))


def _dump(record: Any, part: object, shape: Any, *, exclude: Any = None) -> str:
    """``part`` of the record, of type ``shape``, as JSON; raises RecordError for values that cannot be read
    back."""
    try:
        text = _serializer(shape).to_json(part, exclude=exclude, warnings="error").decode()
    except PydanticSerializationError as exc:
        raise RecordError(
            f"{type(record).__name__} {record.id!r} cannot be written as JSON: {serialization_problem(exc)}"
        ) from exc
    if is_suspect(text):
        fields_json(record)  # raises for values that cannot be read back
    return text


def is_tool_use(target: str) -> bool:
    """True when an action with this target uses a tool; a message to the user does not."""
    return target != "user"


def _task_columns(task: Task) -> Values:
    return {
        "tenant": task.tenant,
        "family": task.family,
        "environment": task.environment,
        "split": task.split,
        "level": task.level,
    }


def _decision_columns(decision: Decision) -> Values:
    return {
        "tenant": decision.tenant,
        "task_id": decision.task_id,
        "family": decision.family,
        "chosen": decision.chosen,
        "propensity": decision.propensity,
        "episode": decision.episode,
        "release_id": decision.release,
        "arm": decision.arm,
    }


def _evaluation_columns(evaluation: Evaluation) -> Values:
    return {
        "task_id": evaluation.task_id,
        "trajectory_id": evaluation.trajectory_id,
        "evaluator": evaluation.evaluator,
        "verdict": evaluation.verdict,
        "score": evaluation.score,
    }


def _feedback_columns(feedback: Feedback) -> Values:
    return {
        "tenant": feedback.tenant,
        "subject_kind": feedback.subject_kind,
        "subject_id": feedback.subject_id,
        "metric": feedback.metric,
        "value": feedback.value,
    }


def _trajectory_columns(trajectory: Trajectory) -> Values:
    return {
        "task_id": trajectory.task_id,
        "agent_version": trajectory.agent_version,
        "origin": trajectory.origin,
        "outcome": trajectory.outcome,
        "turn_count": len(trajectory.turns),
        "tool_turns": sum(turn.action is not None and is_tool_use(turn.action.target) for turn in trajectory.turns),
        # Numbers of numpy are written as JSON like any other, but SQLite would keep their bytes.
        "prompt_tokens": int(trajectory.usage.prompt_tokens),
        "written_tokens": int(trajectory.usage.written_tokens),
        "seconds": float(trajectory.usage.seconds),
    }


KINDS: Mapping[type[Any], Kind] = {
    Task: Kind(schema.tasks, _task_columns),
    Decision: Kind(schema.decisions, _decision_columns),
    Trajectory: Kind(schema.trajectories, _trajectory_columns),
    Evaluation: Kind(schema.evaluations, _evaluation_columns),
    Feedback: Kind(schema.feedback, _feedback_columns),
    AgentVersion: Kind(schema.agent_versions, lambda version: {"agent": version.agent, "kind": version.kind}),
    Release: Kind(
        schema.releases,
        lambda release: {"agent": release.agent, "candidate": release.candidate, "state": release.state},
    ),
    Run: Kind(schema.runs, lambda run: {"command": run.command, "state": run.state}),
    Snapshot: Kind(schema.snapshots, lambda _: {}),
}


def row_of(record: Any) -> Values:
    """The record's row, without sequence and recorded_at, and without a tenant that it inherits.

    Raises RecordError for values that cannot be read back (each record is tried: one that cannot be read would stop
    every read of the pool) and for integers that a column cannot hold.
    """
    if isinstance(record, Trajectory):
        texts = _trajectory_texts(record)
    else:
        text = fields_json(record)
        from_fields(type(record), text)
        texts = {"id": record.id, "fields": text, "digest": digest(text)}
    columns = KINDS[type(record)].columns(record)
    for name, value in columns.items():
        if isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
            raise RecordError(
                f"{name} of {record.id!r} must be at most {_LARGEST_INTEGER}, got one of {value.bit_length()} bits"
            )
    return columns | texts


def _trajectory_texts(trajectory: Trajectory) -> Values:
    turns = _dump(trajectory, trajectory.turns, tuple[Turn, ...])
    rows = _dump(trajectory, trajectory.rows, tuple[TokenRow, ...])
    rest = _dump(trajectory, trajectory, Trajectory, exclude={"turns", "rows", "usage"})
    usage = _dump(trajectory, trajectory.usage, Usage)
    from_fields(Trajectory, _joined(turns, rows, usage, rest))
    tokens = f"{trajectory.usage.prompt_tokens} {trajectory.usage.written_tokens}"
    return {
        "id": trajectory.id,
        "turns": turns,
        "rows": rows,
        "fields": rest,
        "digest": digest(turns, rows, rest, tokens),
    }


def digest(*texts: str) -> str:
    """SHA-256 over the texts and where each ends, as hexadecimal; text that is not Unicode is allowed."""
    hasher = hashlib.sha256()
    for text in texts:
        encoded = text.encode(errors="surrogatepass")
        hasher.update(len(encoded).to_bytes(8, "big"))
        hasher.update(encoded)
    return hasher.hexdigest()


def trajectory_of(row: Any, *, has_tokens: bool) -> Trajectory:
    """The trajectory in a row of its table; without its token rows where ``has_tokens`` is False."""
    rows = row.rows if has_tokens else "[]"
    usage = (
        f'{{"prompt_tokens":{row.prompt_tokens},"written_tokens":{row.written_tokens},"seconds":{row.seconds!r}}}'
    )
    return from_fields(Trajectory, _joined(row.turns, rows, usage, row.fields))


def _joined(turns: str, rows: str, usage: str, rest: str) -> str:
    """A trajectory's JSON from its parts."""
    return f'{{"turns":{turns},"rows":{rows},"usage":{usage},{rest.removeprefix("{")}'
