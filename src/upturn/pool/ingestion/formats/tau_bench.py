"""τ-bench's recorded trajectories: a JSON array of rows with ``task_id``, ``trial``, ``reward``, ``traj``,
``info``.

``traj`` has the chat messages, ``info.task`` the simulated user's instruction and the gold actions. A row of a
broken run has an empty ``traj`` and ``info.error``, and is stored as a trajectory. The file has neither its domain
nor its model: the family is the domain in the first heading of the agent's policy, or ``tau-bench``.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, from_json, to_json

from upturn.errors import IngestError
from upturn.pool.ingestion.formats.conversation import (
    Conversation,
    Defaults,
    Line,
    LineError,
    Lines,
    OpenFile,
    first_text,
    parse_name,
    parse_number,
    parse_reward,
    parse_turns,
)
from upturn.pool.ingestion.formats.json_text import array_items
from upturn.pool.ingestion.formats.known_keys import unknown_keys

_KEYS = frozenset({"task_id", "trial", "reward", "traj", "info"})

_SUCCESS = 1 - 1e-6
"""τ-bench's threshold of the reward for a success."""

_DOMAIN = re.compile(r"^#\s*([A-Za-z][A-Za-z-]{0,40}) agent policy", re.IGNORECASE)


def read_tau_bench(open_file: OpenFile, defaults: Defaults) -> Lines:
    """Yields the rows of the array. Raises OSError, and IngestError for a file that is no JSON array.

    A row without its texts makes it read the whole file once more, for those of the other rows.
    """
    texts: list[_TaskTexts] = []

    def find_texts() -> _TaskTexts:
        if not texts:
            texts.append(_task_texts(row for _, row, _ in _rows(open_file)))
        return texts[0]

    for number, row, text in _rows(open_file):
        try:
            yield Line(number, _conversation(row, find_texts, defaults), text)
        except LineError as exc:
            yield Line(number, exc, text)


class _Row(NamedTuple):
    number: int
    row: Any
    """The JSON value, or a LineError."""
    text: bytes


def _rows(open_file: OpenFile) -> Iterator[_Row]:
    with open_file() as file:
        items = array_items(file)
        if items is None:
            raise IngestError("the file is no JSON array of rows; for JSON lines use --format chat")
        for number, text in items:
            if isinstance(text, LineError):
                if number == 1 and text.args[0].startswith("not JSON"):
                    raise IngestError(f"{text}; a tau-bench file is one JSON array of rows")
                yield _Row(number, text, b"")
            else:
                yield _Row(number, _parsed(text), text)


def _parsed(text: bytes) -> Any:
    """Returns the JSON value, or a LineError.

    Python's deviations from JSON are read, NaN and text that is not Unicode, so that the error names the field.
    """
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as exc:
        problem = exc
    try:
        row = json.loads(text.decode(errors="surrogateescape"))
        to_json(row, inf_nan_mode="constants")
    except (ValueError, RecursionError, PydanticSerializationError) as exc:
        return LineError(f"not JSON: {exc if isinstance(exc, PydanticSerializationError) else problem}")
    return row


class _TaskTexts(NamedTuple):
    """Instructions and policies from the complete rows, for rows of broken runs, which have none."""

    instructions: Mapping[str, str]
    """The first instruction by task id."""
    policies: Mapping[str, str]
    """The first system message by task id, and the file's first one under the empty id."""


def _task_texts(rows: Iterator[Any]) -> _TaskTexts:
    instructions: dict[str, str] = {}
    policies: dict[str, str] = {}
    for row in rows:
        if not isinstance(row, dict):
            continue
        task_id = str(row.get("task_id"))
        instruction = _task_of(row).get("instruction")
        if isinstance(instruction, str) and instruction:
            instructions.setdefault(task_id, instruction)
        policy = _policy(row)
        if policy:
            policies.setdefault(task_id, policy)
            policies.setdefault("", policy)
    return _TaskTexts(instructions, policies)


def _policy(row: Mapping[str, Any]) -> str:
    try:
        return first_text(row.get("traj"), "system")
    except LineError:  # reported when the row itself is read
        return ""


def _info_of(row: object) -> Mapping[str, Any]:
    info = row.get("info") if isinstance(row, dict) else None
    return info if isinstance(info, dict) else {}


def _task_of(row: object) -> Mapping[str, Any]:
    task = _info_of(row).get("task")
    return task if isinstance(task, dict) else {}


def _conversation(row: object, find_texts: Callable[[], _TaskTexts], defaults: Defaults) -> Conversation:
    if isinstance(row, LineError):
        raise row
    if not isinstance(row, dict):
        raise LineError("a row must be an object with task_id, trial, reward, traj and info")
    task_id = parse_name(row.get("task_id"), "task_id")
    if task_id is None:
        raise LineError("task_id is missing")
    if "traj" not in row:
        raise LineError("traj is missing")
    extra = unknown_keys(row, _KEYS)
    messages = row["traj"]
    turns, final_observation = parse_turns(messages)
    reward = parse_reward(row.get("reward"))
    policy = first_text(messages, "system")
    instruction = _task_of(row).get("instruction")
    if not policy or not instruction:
        texts = find_texts()
        policy = policy or texts.policies.get(task_id, texts.policies.get("", ""))
        instruction = instruction or texts.instructions.get(task_id, "")
    if not isinstance(instruction, str):
        raise LineError("info.task.instruction must be text")
    error = _error(_info_of(row), bool(turns))
    domain = _DOMAIN.match(policy)
    return Conversation(
        task_key=f"{task_id}\n{instruction or policy}",
        family=defaults.family or (domain[1].lower() if domain else "tau-bench"),
        instruction=instruction or first_text(messages, "user") or f"task {task_id}",
        agent=defaults.agent,
        number=parse_number(row.get("trial")),
        turns=turns,
        final_observation=final_observation,
        reward=reward,
        is_success=None if reward is None else reward >= _SUCCESS,
        outcome="model_error" if error else "finished",
        error=error,
        context={"source_task": task_id, "gold_actions": _task_of(row).get("actions")},
        extra=extra,
        unknown=tuple(extra),
    )


def _error(info: Mapping[str, Any], has_turns: bool) -> str:
    """Returns the error of a broken run; empty = no error."""
    if info.get("error"):
        return str(info["error"])[:1000]
    return "" if has_turns else "no assistant message was recorded"
