"""Conversations from the parts that a reader found; what all readers but τ-bench's do alike."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json, to_json

from upturn.pool.ingestion.formats.conversation import (
    Conversation,
    Defaults,
    LineError,
    first_text,
    parse_turns,
)
from upturn.pool.tags import MOST_TAGS, is_tag
from upturn.records import JsonValue


@dataclass(frozen=True, slots=True)
class Recorded:
    """A conversation in OpenAI's form, with what its source says about it."""

    messages: Sequence[Any]
    """Objects with ``role``, ``content``, ``tool_calls`` and ``tool_call_id``."""
    tools: Sequence[Any] = ()
    family: str = ""
    """Empty = the source names none."""
    model: str = ""
    task_id: str = ""
    """Equal for trajectories of the same task; empty = equal openings are the same task."""
    identity: str | None = None
    reward: float | None = None
    success: bool | None = None
    """None = a reward of 1 is a success, a lower one a failure."""
    number: int | None = None
    error: str = ""
    extra: Mapping[str, JsonValue] = field(default_factory=dict)
    context: Mapping[str, JsonValue] = field(default_factory=dict)
    tags: object = None
    """As the source has them: a list, or its JSON text."""


def conversation_of(recorded: Recorded, defaults: Defaults, family: str) -> Conversation:
    """Returns the conversation; raises LineError. ``family``: of the format, where nothing else names one."""
    turns, final_observation = parse_turns(recorded.messages, recorded.tools)
    if not turns and not recorded.error:
        raise LineError("no assistant message")
    reward = recorded.reward
    success = (None if reward is None else reward >= 1) if recorded.success is None else recorded.success
    instruction = first_text(recorded.messages, "user")
    task_id = recorded.task_id
    tags, others = _tags(recorded.tags)
    return Conversation(
        task_key=f"id {task_id}" if task_id else text_key(recorded.messages, instruction, recorded.tools),
        family=(recorded.family or defaults.family or family)[:200],
        instruction=instruction,
        agent=(recorded.model or defaults.agent)[:200],
        number=recorded.number,
        turns=turns,
        final_observation=final_observation,
        reward=reward,
        is_success=success,
        outcome="model_error" if recorded.error else "finished",
        error=recorded.error[:1000],
        context=recorded.context,
        identity=recorded.identity,
        tools=recorded.tools,
        tags=tags,
        extra={**recorded.extra} | ({"other_tags": others} if others else {}),
    )


def _tags(value: object) -> tuple[list[str], list[JsonValue]]:
    """Returns the usable tags of a source, and the others."""
    if isinstance(value, str):
        try:
            value = from_json(value, allow_inf_nan=False)
        except ValueError:
            value = [value]
    listed: list[Any] = value if isinstance(value, list) else []
    usable = list(dict.fromkeys(tag for tag in listed if is_tag(tag)))
    return usable[:MOST_TAGS], [tag for tag in listed if not is_tag(tag)] + usable[MOST_TAGS:]


def text_key(messages: object, instruction: str, tools: Sequence[Any]) -> str:
    """Returns the key of the task of conversations that begin alike."""
    offered = f"\n{to_json(tools).decode()}" if tools else ""
    return f"text {first_text(messages, 'system')}\n{instruction}{offered}"


def unit_score(value: object) -> float | None:
    """Returns a score in [0, 1]; None for anything else."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= 1:
        return float(value)
    return None


def printable_name(value: object) -> str:
    """Returns a name without control characters; empty for anything but text and numbers."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return "".join(character for character in str(value) if character.isprintable())[:200]
