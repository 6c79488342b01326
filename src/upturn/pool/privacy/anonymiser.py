"""Records without privacy findings in the texts of people, agents and environments.

A trajectory with a replacement also loses its token rows, and a call's content its tokens, because they contain the
same text. Ids and the names of agents, families and tenants stay, so that records still refer to each other.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pydantic_core import from_json, to_json

from upturn.pool.privacy.replacement import Replacer, mask, replace_json
from upturn.records import (
    AgentVersion,
    Call,
    CallContent,
    Decision,
    Evaluation,
    Feedback,
    JsonValue,
    Task,
    Trajectory,
    fields_json,
    from_fields,
)

RecordT = TypeVar("RecordT")

_TEXT_FIELDS: Mapping[type[Any], tuple[str, ...]] = {
    Task: ("instruction", "context"),
    Decision: ("reason",),
    Call: ("error",),
    Trajectory: ("turns", "final_observation", "final_state", "error"),
    Evaluation: ("gates",),
    Feedback: ("comment", "metric"),
    AgentVersion: ("prompt", "parameters"),
}
"""Fields with text of people, agents or environments, by class of record."""

_JSON_FIELDS: Mapping[type[Any], tuple[str, ...]] = {CallContent: ("messages", "tools", "answer")}
"""Fields with such text as JSON, by class of record."""


def anonymise(record: RecordT, replacer: Replacer = mask) -> RecordT:
    """Returns the record without privacy findings; the same object if it has none."""
    fields = from_json(fields_json(record))
    clean = fields | {name: replace_json(fields[name], replacer) for name in _TEXT_FIELDS.get(type(record), ())}
    clean |= {name: _json_replaced(fields[name], replacer) for name in _JSON_FIELDS.get(type(record), ())}
    if isinstance(record, Trajectory):
        for turn, original in zip(clean["turns"], fields["turns"], strict=True):
            turn["message"] = _json_replaced(original["message"], replacer)
    if clean == fields:
        return record
    anonymous = from_fields(type(record), to_json(clean))
    if isinstance(anonymous, Trajectory):
        return replace(anonymous, rows=())
    return replace(anonymous, tokens="") if isinstance(anonymous, CallContent) else anonymous


def _json_replaced(text: str, replacer: Replacer) -> str:
    """Returns JSON text with its findings replaced value by value, as one may begin next to an escape."""
    if not text:
        return text
    value: JsonValue = from_json(text)
    clean = replace_json(value, replacer)
    return text if clean == value else to_json(clean).decode()
