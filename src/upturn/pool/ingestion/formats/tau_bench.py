"""τ-bench's recorded trajectories: a JSON array of rows with ``task_id``, ``trial``, ``reward``, ``traj``,
``info``.

``traj`` has the chat messages, ``info.task`` the simulated user's instruction and the gold actions. A row of a
broken run has an empty ``traj`` and ``info.error``, and is stored as a trajectory. The file has neither its domain
nor its model: the family is the domain in the first heading of the agent's policy, or ``tau-bench``.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, from_json, to_json

from upturn.errors import IngestError
from upturn.pool.ingestion.formats.conversation import (
    Conversation,
    Defaults,
    Line,
    LineError,
    Lines,
    first_text,
    parse_name,
    parse_number,
    parse_reward,
    parse_turns,
)

LARGEST_FILE = 2**30
"""Bytes; the array is parsed at once and needs about ten times its size in memory."""

_SUCCESS = 1 - 1e-6
"""τ-bench's threshold of the reward for a success."""

_DOMAIN = re.compile(r"^#\s*([A-Za-z][A-Za-z-]{0,40}) agent policy", re.IGNORECASE)


def read_tau_bench(path: Path, defaults: Defaults) -> Lines:
    """Yields the rows of the array. Raises OSError, and IngestError for a file that is no JSON array."""
    if path.stat().st_size > LARGEST_FILE:
        raise IngestError(f"{str(path)!r} is larger than {LARGEST_FILE} bytes; split the array into several files")
    content = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    try:
        rows = from_json(content, allow_inf_nan=False)
    except ValueError as exc:
        rows = _rows_one_by_one(content)
        if len(rows) < 2:
            raise IngestError(
                f"{str(path)!r} is not JSON: {exc}; a tau-bench file is one JSON array of rows"
            ) from exc
    if not isinstance(rows, list):
        raise IngestError(f"{str(path)!r} is no JSON array; for JSON lines use --format chat")
    texts = _task_texts(rows)
    for number, row in enumerate(rows, start=1):
        try:
            yield Line(number, _conversation(row, texts, defaults))
        except LineError as exc:
            yield Line(number, exc)


def _rows_one_by_one(content: bytes) -> list[Any]:
    """Returns the rows of an array with Python's deviations from JSON, which are NaN and text that is not Unicode.

    If the array ends with a syntax error, the last row is a LineError. Empty = the text is no array.
    """
    text = content.decode(errors="surrogateescape")
    decoder = json.JSONDecoder()
    rows: list[Any] = []
    position = _skip_space(text, 0)
    if not text.startswith("[", position):
        return rows
    is_open = True
    try:
        while is_open:
            row, position = decoder.raw_decode(text, _skip_space(text, position + 1))
            rows.append(_checked_row(row))
            position = _skip_space(text, position)
            is_open = text.startswith(",", position)
        if not text.startswith("]", position) or text[position + 1 :].strip():
            raise ValueError(f"expected , or the end of the array at character {position}")
    except (ValueError, RecursionError) as exc:
        rows.append(LineError(f"not JSON: {exc}; the rest of the file is not read"))
    return rows


def _checked_row(row: Any) -> Any:
    """Returns the row, or a LineError if it is not valid JSON, since other rows of its task also use its text."""
    try:
        to_json(row, inf_nan_mode="constants")
    except PydanticSerializationError as exc:
        return LineError(f"not JSON: {exc}")
    return row


def _skip_space(text: str, position: int) -> int:
    """Returns the position of the next character that is no white space."""
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


_SPACE = re.compile(r"[ \t\n\r]*")


class _TaskTexts(NamedTuple):
    """Instructions and policies from the complete rows, for rows of broken runs, which have none."""

    instructions: Mapping[str, str]
    """The first instruction by task id."""
    policies: Mapping[str, str]
    """The first system message by task id, and the file's first one under the empty id."""


def _task_texts(rows: list[Any]) -> _TaskTexts:
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


def _conversation(row: object, texts: _TaskTexts, defaults: Defaults) -> Conversation:
    if isinstance(row, LineError):
        raise row
    if not isinstance(row, dict):
        raise LineError("a row must be an object with task_id, trial, reward, traj and info")
    task_id = parse_name(row.get("task_id"), "task_id")
    if task_id is None:
        raise LineError("task_id is missing")
    if "traj" not in row:
        raise LineError("traj is missing")
    messages = row["traj"]
    turns, final_observation = parse_turns(messages)
    reward = parse_reward(row.get("reward"))
    policy = first_text(messages, "system") or texts.policies.get(task_id, texts.policies.get("", ""))
    instruction = _task_of(row).get("instruction") or texts.instructions.get(task_id, "")
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
    )


def _error(info: Mapping[str, Any], has_turns: bool) -> str:
    """Returns the error of a broken run; empty = no error."""
    if info.get("error"):
        return str(info["error"])[:1000]
    return "" if has_turns else "no assistant message was recorded"
