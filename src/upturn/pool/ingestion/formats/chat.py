"""JSON lines with one conversation per line: ``{"messages": […], …}``.

Optional keys: ``reward`` (0 to 1), ``success`` (true or false; it overrides ``reward``), ``task_id`` (equal for
trajectories of the same task; without it, conversations with the same first system and user message are of the same
task), ``trial``, ``family`` (default ``chat``) and ``model``. Other keys are ignored.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pydantic_core import from_json

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

LONGEST_LINE = 32 * 2**20
"""Bytes; a longer line is quarantined without loading it into memory."""


def read_chat(path: Path, defaults: Defaults) -> Lines:
    """Yields the lines of the file that are not blank. Raises OSError."""
    for number, text in text_lines(path):
        try:
            if isinstance(text, LineError):
                raise text
            yield Line(number, _conversation(text, defaults))
        except LineError as exc:
            yield Line(number, exc)


def text_lines(path: Path) -> Iterator[tuple[int, bytes | LineError]]:
    """Yields (number, text or error) of each line that is not blank. Raises OSError."""
    with path.open("rb") as file:
        for number, line in enumerate(_lines(file), start=1):
            if line is None:
                yield number, LineError(f"the line is longer than {LONGEST_LINE} bytes; split it")
                continue
            text = line.removeprefix(b"\xef\xbb\xbf").strip()
            if text:
                yield number, text


def _lines(file: BinaryIO) -> Iterator[bytes | None]:
    """Yields the lines; None = a line that is too long."""
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) <= LONGEST_LINE:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(LONGEST_LINE)
        yield None


def _conversation(text: bytes, defaults: Defaults) -> Conversation:
    try:
        raw = from_json(text, allow_inf_nan=False)
    except ValueError as exc:
        raise LineError(f"not JSON: {exc}") from exc
    if not isinstance(raw, dict):
        raise LineError('a line must be an object {"messages": […]}')
    messages = raw.get("messages")
    turns, final_observation = parse_turns(messages)
    if not turns:
        raise LineError("no assistant message")
    instruction = first_text(messages, "user")
    task_id = parse_name(raw.get("task_id"), "task_id")
    reward = parse_reward(raw.get("reward"))
    return Conversation(
        task_key=f"text {first_text(messages, 'system')}\n{instruction}" if task_id is None else f"id {task_id}",
        family=parse_name(raw.get("family"), "family") or defaults.family or "chat",
        instruction=instruction,
        agent=parse_name(raw.get("model"), "model") or defaults.agent,
        number=parse_number(raw.get("trial")),
        turns=turns,
        final_observation=final_observation,
        reward=reward,
        is_success=_success(raw.get("success"), reward),
    )


def _success(value: object, reward: float | None) -> bool | None:
    if isinstance(value, bool):
        return value
    if value is not None:
        raise LineError(f"success must be true, false or null, got {value!r}")
    return None if reward is None else reward >= 1
