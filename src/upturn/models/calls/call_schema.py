"""What a model's output must look like to be a call of an offered tool: markers around a JSON object with a schema.

The engine turns it into a grammar: ``engine.grammar`` here, a structural tag or a JSON schema elsewhere.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from upturn.errors import ModelError
from upturn.models.calls.formats import CallFormat
from upturn.models.calls.names import FunctionNames
from upturn.records import Action, JsonValue, Tool, record

_MARKERS: Mapping[str, tuple[str, str]] = {
    "hermes": ("<tool_call>\n", "\n</tool_call>"),
    "llama": ("", ""),
    "json": ("", ""),
}
_ARGUMENTS = {"llama": "parameters"}
"""By format, the key of the arguments; ``arguments`` elsewhere."""


@record
class CallSchema:
    """An output that is one call: ``opening``, a JSON object, ``closing``. Other text may stand before ``opening``
    unless it is empty."""

    opening: str
    schema: str
    """JSON Schema of the object, as JSON."""
    closing: str


def call_schema(calls: CallFormat, tools: Sequence[Tool], names: FunctionNames) -> CallSchema:
    """The calls of these tools, by these names, in a format; raises ModelError for a format without a schema, and
    without tools."""
    if calls.name not in _MARKERS:
        raise ModelError(
            f"sampling.calls_only has no grammar for calls in the format {calls.name!r}; it has for "
            f"{', '.join(map(repr, _MARKERS))}: leave it out, or take a model that writes one of these"
        )
    if not tools:
        raise ModelError("sampling.calls_only needs tools, but the environment lists none; leave it out")
    opening, closing = _MARKERS[calls.name]
    key = _ARGUMENTS.get(calls.name, "arguments")
    objects = [_object(tool, names.write(Action(tool.target, tool.operation, {})), key) for tool in tools]
    return CallSchema(opening, json.dumps({"anyOf": objects}, ensure_ascii=False), closing)


def structural_tag(schema: CallSchema) -> str:
    """The same for engines with xgrammar (``docs/tutorials/structural_tag.md`` of xgrammar 0.1.25 and later)."""
    content = {"type": "json_schema", "json_schema": json.loads(schema.schema)}
    tag = {"begin": schema.opening, "content": content, "end": schema.closing}
    output = {
        "type": "triggered_tags",
        "triggers": [schema.opening.strip()],
        "tags": [tag],
        "at_least_one": True,
        "stop_after_first": True,
    }
    return json.dumps({"type": "structural_tag", "format": output}, ensure_ascii=False)


def _object(tool: Tool, name: str, key: str) -> dict[str, Any]:  # Any: a JSON border
    arguments: dict[str, JsonValue] = {
        "type": "object",
        "properties": dict(tool.properties),
        "required": list(tool.required),
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"name": {"const": name}, key: arguments},
        "required": ["name", key],
        "additionalProperties": False,
    }
