"""Preference rows: an answer that is preferred to another one, as data sets for DPO and reward models have them.

- ``prompt``, ``chosen``, ``rejected`` as text, or as lists of messages (TRL); ``question`` and ``system`` as other
  names of the prompt and of a system message before it.
- ``chosen`` and ``rejected`` with the whole conversation in both; what they begin with alike is the prompt.
- ``messages`` with ``chosen`` and ``rejected``: the messages are the prompt.
- ``input`` (``messages``, ``tools``), ``preferred_output`` and ``non_preferred_output``, as OpenAI's fine-tuning.

A row becomes two trajectories of one task without a verdict, and feedback that one is better. Text without roles
as the prompt is a message of the user.
"""

from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from upturn.pool.ingestion.formats.chat import parse_tools
from upturn.pool.ingestion.formats.conversation import (
    Conversation,
    Defaults,
    Line,
    LineError,
    Lines,
    OpenFile,
    first_text,
    parse_name,
    parse_turns,
)
from upturn.pool.ingestion.formats.json_text import json_objects
from upturn.pool.ingestion.formats.known_keys import unknown_keys
from upturn.pool.ingestion.formats.recorded import text_key
from upturn.records import JsonValue

_SIDES = ("chosen", "rejected")
_OPENAI_SIDES = ("preferred_output", "non_preferred_output")
_KEPT = ("score_chosen", "score_rejected", "chosen_score", "rejected_score", "chosen_rating", "rejected_rating")
"""Kept with both trajectories; their scales differ, so they are no rewards."""
_MODELS = {side: (f"{side}_model", f"{side}-model", f"model_{side}") for side in _SIDES}
_KEYS = frozenset(
    {"prompt", "question", "messages", "system", "input", "tools", "functions", "family", "task_id", "prompt_id"}
    | {*_SIDES, *_OPENAI_SIDES, *_KEPT, *(name for names in _MODELS.values() for name in names)}
)


def read_preferences(open_file: OpenFile, defaults: Defaults) -> Lines:
    """Yields the rows, the preferred conversation first. Raises OSError."""
    with open_file() as file:
        for number, text in json_objects(file):
            try:
                if isinstance(text, LineError):
                    raise text
                chosen, rejected = _sides(_row(text), defaults)
                yield Line(number, chosen, text, (rejected,), is_preference=True)
            except LineError as exc:
                yield Line(number, exc, b"" if isinstance(text, LineError) else text)


def _row(text: bytes) -> dict[str, Any]:
    try:
        row = from_json(text, allow_inf_nan=False)
    except ValueError as exc:
        raise LineError(f"not JSON: {exc}") from exc
    if not isinstance(row, dict):
        raise LineError('a row must be an object {"prompt": …, "chosen": …, "rejected": …}')
    return row


def _sides(row: dict[str, Any], defaults: Defaults) -> tuple[Conversation, Conversation]:
    extra = unknown_keys(row, _KEYS)
    names = _OPENAI_SIDES if _OPENAI_SIDES[0] in row else _SIDES
    missing = [name for name in names if row.get(name) in (None, "", [])]
    if missing:
        raise LineError(f"{' and '.join(missing)} is missing; a row has both answers")
    prompt, tools = _prompt(row)
    chosen, rejected = (_answer(row[name], name) for name in names)
    if not prompt:
        prompt, chosen, rejected = _divided(chosen, rejected)
    elif chosen[: len(prompt)] == prompt and rejected[: len(prompt)] == prompt:
        chosen, rejected = chosen[len(prompt) :], rejected[len(prompt) :]
    if chosen == rejected:
        raise LineError(f"{names[0]} and {names[1]} are equal; a pair needs two different answers")
    task_id = parse_name(row.get("task_id", row.get("prompt_id")), "task_id")
    key = f"id {task_id}" if task_id is not None else text_key(prompt, str(prompt), tools)
    kept: dict[str, JsonValue] = {name: row[name] for name in _KEPT if row.get(name) is not None}
    family = parse_name(row.get("family"), "family") or defaults.family or "preference"

    def conversation(answer: list[Any], side: str) -> Conversation:
        turns, final = parse_turns([*prompt, *answer], tools)
        if not answer or not isinstance(answer[-1], dict) or answer[-1].get("role") != "assistant":
            raise LineError(f"{side} must end with a message of the assistant")
        model = next((row[name] for name in _MODELS[side] if row.get(name) is not None), None)
        return Conversation(
            task_key=key,
            family=family,
            instruction=first_text(prompt, "user"),
            agent=parse_name(model, f"{side}_model") or defaults.agent,
            number=0,  # equal answers to equal prompts are one trajectory
            turns=turns,
            final_observation=final,
            reward=None,
            is_success=None,
            tools=tools,
            extra=extra | kept,
            unknown=tuple(extra) if side == "chosen" else (),
        )

    return conversation(chosen, "chosen"), conversation(rejected, "rejected")


def _prompt(row: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Returns the messages before the answers and the tools; no messages = the answers have them."""
    source = row.get("input")
    if isinstance(source, dict):
        return _messages(source.get("messages"), "input.messages"), parse_tools(dict(source))
    names = [name for name in ("prompt", "question", "messages", "input") if row.get(name)]
    if len(names) > 1:
        raise LineError(f"{' and '.join(names)} both are the prompt; keep one")
    messages = _messages(row[names[0]], names[0]) if names else []
    system = row.get("system")
    if system is not None and not isinstance(system, str):
        raise LineError("system must be text or null")
    return ([{"role": "system", "content": system}] if system else []) + messages, parse_tools(dict(row))


def _messages(value: Any, name: str) -> list[Any]:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list):
        raise LineError(f"{name} must be text or a list of messages")
    return value


def _answer(value: Any, name: str) -> list[Any]:
    if isinstance(value, str):
        return [{"role": "assistant", "content": value}]
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, list):
        raise LineError(f"{name} must be text, a message or a list of messages")
    return value


def _divided(chosen: list[Any], rejected: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Returns what two conversations begin with alike, and the rest of each; raises LineError."""
    shared = 0
    while shared < min(len(chosen), len(rejected)) and chosen[shared] == rejected[shared]:
        shared += 1
    if not shared:
        raise LineError(
            "there is no prompt, and chosen and rejected do not begin with the same messages; add prompt, or write "
            "both as lists of messages that begin alike"
        )
    return chosen[:shared], chosen[shared:], rejected[shared:]
