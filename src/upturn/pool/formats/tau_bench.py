"""τ-bench's recorded trajectories: one JSON array of rows ``task_id``, ``trial``, ``reward``, ``traj`` and
``info``.

``traj`` holds the chat messages; ``info.task`` the instruction that the simulated user had and the gold
actions. A row whose run broke has an empty ``traj`` and ``info.error``: it is kept as a trajectory. The file names
neither its domain nor its model: the family is the domain in the first heading of the agent's policy, else
``tau-bench``.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, from_json, to_json

from upturn.errors import IngestError
from upturn.pool.formats.conversation import (
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
"""Bytes; an array is parsed as a whole and takes about ten times its size in memory."""

_SUCCESS = 1 - 1e-6
"""τ-bench's own threshold for a reward that means success."""

_DOMAIN = re.compile(r"^#\s*([A-Za-z][A-Za-z-]{0,40}) agent policy", re.IGNORECASE)


def read_tau_bench(path: Path, defaults: Defaults) -> Lines:
    """The array's rows one after another. Raises OSError, and IngestError for a file that is no JSON array."""
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
        raise IngestError(f"{str(path)!r} holds no JSON array; for JSON lines use --format chat")
    texts = _task_texts(rows)
    for number, row in enumerate(rows, start=1):
        try:
            yield Line(number, _conversation(row, texts, defaults))
        except LineError as exc:
            yield Line(number, exc)


def _rows_one_by_one(content: bytes) -> list[Any]:
    """The rows of an array with Python's deviations from JSON: NaN, or text that is not Unicode.

    Where the text stops being an array, the last row is a LineError. Empty where no array starts.
    """
    text = content.decode(errors="surrogateescape")
    decoder = json.JSONDecoder()
    rows: list[Any] = []
    place = _past_space(text, 0)
    if not text.startswith("[", place):
        return rows
    is_open = True
    try:
        while is_open:
            row, place = decoder.raw_decode(text, _past_space(text, place + 1))
            rows.append(_checked_row(row))
            place = _past_space(text, place)
            is_open = text.startswith(",", place)
        if not text.startswith("]", place) or text[place + 1 :].strip():
            raise ValueError(f"expected , or the end of the array at character {place}")
    except (ValueError, RecursionError) as exc:
        rows.append(LineError(f"not JSON: {exc}; the rest of the file is not read"))
    return rows


def _checked_row(row: Any) -> Any:
    """The row, or a LineError where it cannot be written again: its text is also used for other rows of its
    task."""
    try:
        to_json(row, inf_nan_mode="constants")
    except PydanticSerializationError as exc:
        return LineError(f"not JSON: {exc}")
    return row


def _past_space(text: str, place: int) -> int:
    """The place of the next character that is no white space."""
    match = _SPACE.match(text, place)
    return place if match is None else match.end()


_SPACE = re.compile(r"[ \t\n\r]*")


class _TaskTexts(NamedTuple):
    """Instructions and policies by task, from the complete rows; rows of broken runs have none."""

    instructions: Mapping[str, str]
    """The first instruction of each task id that has one."""
    policies: Mapping[str, str]
    """The first system message of each task id that has one, and the file's first one under the empty id."""

    def instruction_of(self, task_id: str) -> str:
        """Empty where no row has one."""
        return self.instructions.get(task_id, "")

    def policy_of(self, task_id: str) -> str:
        """The task's policy, else the file's, else empty."""
        return self.policies.get(task_id) or self.policies.get("", "")


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
    except LineError:  # reported where the row itself is read
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
    policy = first_text(messages, "system") or texts.policy_of(task_id)
    instruction = _task_of(row).get("instruction") or texts.instruction_of(task_id)
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
    """The error of a broken run; empty = none."""
    if info.get("error"):
        return str(info["error"])[:1000]
    return "" if has_turns else "no assistant message was recorded"
