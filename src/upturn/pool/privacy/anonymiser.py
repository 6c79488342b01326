"""Records without privacy findings in the texts of people, agents and environments.

A trajectory with a replacement also loses its token rows, and a call's content its tokens, because they contain the
same text. Ids and the names of agents, families and tenants stay, so that records still refer to each other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pydantic_core import from_json, to_json

from upturn.pool.privacy.finding import Finding
from upturn.pool.privacy.known_name import KnownNames, names_in, with_known
from upturn.pool.privacy.replacement import Replacement, Replacer, findings_of, mask
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


def anonymise(record: RecordT, replacer: Replacer = mask, *, known: KnownNames | None = None) -> RecordT:
    """Returns the record without privacy findings; the same object if it has none.

    ``known`` names are found in all its texts; None = those that it states itself (``names_of``).
    """
    fields = from_json(fields_json(record))
    names = KnownNames(_names(type(record), fields)) if known is None else known

    replacement = replacement_of(names, replacer)
    clean = fields | {name: replacement.json(fields[name]) for name in _TEXT_FIELDS.get(type(record), ())}
    clean |= {name: _json_replaced(fields[name], replacement) for name in _JSON_FIELDS.get(type(record), ())}
    if isinstance(record, Trajectory):
        for turn, original in zip(clean["turns"], fields["turns"], strict=True):
            turn["message"] = _json_replaced(original["message"], replacement)
    if clean == fields:
        return record
    anonymous = from_fields(type(record), to_json(clean))
    if isinstance(anonymous, Trajectory):
        return replace(anonymous, rows=())
    return replace(anonymous, tokens="") if isinstance(anonymous, CallContent) else anonymous


def replacement_of(known: KnownNames, replacer: Replacer) -> Replacement:
    """Returns what replaces findings and known names in texts."""

    def find(text: str, name: str) -> list[Finding]:
        return with_known(findings_of(text, name), known, text)

    return Replacement(find if known else findings_of, replacer)


def names_of(*records: Any) -> KnownNames:
    """Returns the names that the records state."""
    pairs = ((type(record), from_json(fields_json(record))) for record in records)
    return KnownNames(name for kind, fields in pairs for name in _names(kind, fields))


def _names(kind: type[Any], fields: Mapping[str, Any]) -> Iterator[str]:
    for name in _TEXT_FIELDS.get(kind, ()):
        yield from names_in(fields[name])
    for name in _JSON_FIELDS.get(kind, ()):
        yield from names_in(from_json(fields[name]) if fields[name] else "")


def _json_replaced(text: str, replacement: Replacement) -> str:
    """Returns JSON text with its findings replaced value by value, as one may begin next to an escape."""
    if not text:
        return text
    value: JsonValue = from_json(text)
    clean = replacement.json(value)
    return text if clean == value else to_json(clean).decode()
