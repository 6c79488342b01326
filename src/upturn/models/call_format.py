"""Tool-call formats: how each model family writes a call, and how the text is parsed back into an action.

``hermes``: ``<tool_call>{"name": …, "arguments": {…}}</tool_call>`` (Hermes, Qwen2.5, Qwen3). ``xml``, with line
breaks between: ``<tool_call><function=name><parameter=key>value</parameter>…</function></tool_call>`` (Qwen3-Coder,
Qwen3.5 and later). ``llama``: the bare object ``{"name": …, "parameters": {…}}`` (Llama 3.1 and later).
``mistral``: ``[TOOL_CALLS] [{"name": …, "arguments": {…}, "id": …}]``, or ``[TOOL_CALLS]name[ARGS]{…}`` since
tokenizer v11.
``json``: our own, for templates without tool support, ``{"name": …, "arguments": {…}}``. A name is
``target.operation``, as in the compact grammar; in a format without types, values are text, as there. Each object
may instead name the parts, ``{"target_app": …, "operation": …, "parameters": {…}, "reasoning": …}``.

One turn is one call: a text with several parses as none, because only one could be executed. Text before the call
is the action's thought; nothing may follow the call. Not covered: calls as Python (Llama 4, LFM2) and other markup
(GLM, DeepSeek, Gemma 4).
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from upturn.errors import RecordError
from upturn.models.call import value_text
from upturn.records import Action, JsonValue

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_CALLED = re.compile(rf"({_NAME})\.({_NAME})\Z")
_ARGUMENTS = ("arguments", "parameters")
_OTHER_KEYS = frozenset({"name", "id", "type"})
"""Keys that a call may have besides its arguments."""
_PARTS = frozenset({"target_app", "operation", "parameters", "reasoning"})
"""Keys of an action that names its parts."""
_ARGS_CALL = re.compile(rf"\s*({_NAME}\.{_NAME})\s*(?:\[CALL_ID\]\s*([A-Za-z0-9]+)\s*)?\[ARGS\]\s*")
_XML_FUNCTION = re.compile(r"\s*<function=([^<>\n]+)>\s*")
_XML_PARAMETER = re.compile(r"<parameter=([^<>\n]+)>\n(.*?)\n</parameter>\s*", re.DOTALL)
_XML_END = re.compile(r"</function>\s*</tool_call>\s*\Z")
_OPEN_OBJECT = re.compile(r'\{\s*"(?:name|type|id|arguments|parameters|target_app|operation|reasoning)"')


class Call(NamedTuple):
    """A parsed call."""

    action: Action
    id: str | None
    """The id that the model gave its call; None = it gave none."""


@dataclass(frozen=True, slots=True)
class CallFormat:
    """The call format of one model family."""

    name: str
    example: str
    """Shown in the prompt where the template does not explain the format."""
    markers: tuple[str, ...]
    """Texts around a call that a tokenizer may hold as single tokens."""
    read: Callable[[str], Call | None]
    """The one call that ends the text; None = there is none, or it cannot be parsed. Never raises."""
    has_types: bool = True
    """False: values are written, and read back, as text."""


def call_name(action: Action) -> str:
    """``target.operation``; raises RecordError when either is not an identifier."""
    name = f"{action.target}.{action.operation}"
    if not _CALLED.match(name):
        raise RecordError(
            f"an action's target and operation must be identifiers ({_NAME}), got {action.target!r} and "
            f"{action.operation!r}; it cannot be written as a call"
        )
    return name


def json_call(action: Action) -> str:
    """The call in the format ``json``; raises RecordError for what JSON or a name cannot hold."""
    return json.dumps({"name": call_name(action), "arguments": checked_arguments(action)}, ensure_ascii=False)


def checked_arguments(action: Action) -> dict[str, JsonValue]:
    """The parameters; raises RecordError when JSON or Unicode cannot hold them."""
    arguments = dict(action.parameters)
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise RecordError(f"the parameters of {call_name(action)!r} cannot be written as JSON: {exc}") from exc
    return arguments


def is_same_call(first: Action, second: Action) -> bool:
    """Whether two actions make the same call, comparing values as text and ignoring thoughts."""
    as_text = [
        (action.target, action.operation, {key: value_text(value) for key, value in action.parameters.items()})
        for action in (first, second)
    ]
    return as_text[0] == as_text[1]


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not finite")
    return number


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text!r} is not JSON")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:  # Any: a JSON border
    named = dict(pairs)
    if len(named) < len(pairs):
        raise ValueError("a key occurs twice; which value is meant is unknown")
    return named


_DECODER = json.JSONDecoder(
    parse_float=_finite, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates
)


def _json_at(text: str, start: int) -> tuple[Any, int] | None:  # Any: a JSON border
    """The JSON value that starts at ``start`` (after blanks), and its end; None = there is none."""
    while start < len(text) and text[start] in " \t\r\n":
        start += 1
    try:
        value, end = _DECODER.raw_decode(text, start)
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate cannot be encoded
    except (ValueError, RecursionError):
        return None
    return value, end


def _call(value: Any, thought: str) -> Call | None:  # Any: a JSON border
    """The call in a JSON object; None = it holds none."""
    if not isinstance(value, dict):
        return None
    if "target_app" in value:
        return _from_parts(value, thought)
    argument_keys = [key for key in _ARGUMENTS if key in value]
    if len(argument_keys) > 1 or not _OTHER_KEYS.issuperset(value.keys() - set(argument_keys)):
        return None
    arguments = value[argument_keys[0]] if argument_keys else {}
    return _call_of(value.get("name"), arguments, value.get("id"), thought)


def _from_parts(parts: Mapping[str, Any], thought: str) -> Call | None:
    """As ``_call``, for an object that names the action's parts."""
    target, operation, reasoning = parts["target_app"], parts.get("operation"), parts.get("reasoning", "")
    if not _PARTS.issuperset(parts) or not all(isinstance(part, str) for part in (target, operation, reasoning)):
        return None
    thoughts = "\n".join(part for part in (thought.strip(), reasoning) if part)
    return _call_of(f"{target}.{operation}", parts.get("parameters", {}), None, thoughts)


def _call_of(name: object, arguments: object, call_id: object, thought: str) -> Call | None:
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    match = _CALLED.match(name)
    if match is None:
        return None
    action = Action(match.group(1), match.group(2), arguments, thought.strip())
    return Call(action, call_id if isinstance(call_id, str) else None)


def _ends_of(marker: str, text: str) -> Iterator[int]:
    """The end index of each occurrence of the marker."""
    return (match.end() for match in re.finditer(re.escape(marker), text))


def _read_hermes(text: str) -> Call | None:
    for start in _ends_of("<tool_call>", text):
        decoded = _json_at(text, start)
        if decoded is None:
            continue
        rest = text[decoded[1] :].strip()
        return _call(decoded[0], text[: start - len("<tool_call>")]) if rest == "</tool_call>" else None
    return None


def _read_xml(text: str) -> Call | None:
    for start in _ends_of("<tool_call>", text):
        function = _XML_FUNCTION.match(text, start)
        if function is None:
            continue
        parameters: dict[str, JsonValue] = {}
        position = function.end()
        while match := _XML_PARAMETER.match(text, position):
            if match.group(1) in parameters:
                return None
            parameters[match.group(1)] = match.group(2)
            position = match.end()
        is_whole = _XML_END.match(text, position) is not None
        return (
            _call_of(function.group(1), parameters, None, text[: start - len("<tool_call>")]) if is_whole else None
        )
    return None


def _read_object(text: str) -> Call | None:
    for match in _OPEN_OBJECT.finditer(text):
        decoded = _json_at(text, match.start())
        if decoded is not None:
            thought = text[: match.start()].replace("<|python_tag|>", "")
            return None if text[decoded[1] :].strip() else _call(decoded[0], thought)
    return None


def _read_mistral(text: str) -> Call | None:
    thought, marker, rest = text.partition("[TOOL_CALLS]")
    if not marker:
        return None
    function = _ARGS_CALL.match(rest)
    decoded = _json_at(rest, function.end() if function else 0)
    if decoded is None or rest[decoded[1] :].strip():
        return None
    if function is not None:
        return _call_of(function.group(1), decoded[0], function.group(2), thought)
    calls = decoded[0] if isinstance(decoded[0], list) else []
    return _call(calls[0], thought) if len(calls) == 1 else None


JSON = CallFormat("json", '{"name": <function-name>, "arguments": <args-json-object>}', (), _read_object)
"""For templates without tool support."""

CALL_FORMATS: Mapping[str, CallFormat] = {
    call_format.name: call_format
    for call_format in (
        CallFormat(
            "hermes",
            '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>',
            ("<tool_call>", "</tool_call>"),
            _read_hermes,
        ),
        CallFormat(
            "xml",
            "<tool_call>\n<function=function-name>\n<parameter=name>\nvalue\n</parameter>\n</function>\n</tool_call>",
            ("<tool_call>", "</tool_call>"),
            _read_xml,
            has_types=False,
        ),
        CallFormat(
            "mistral",
            '[TOOL_CALLS] [{"name": <function-name>, "arguments": <args-json-object>}]',
            ("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"),
            _read_mistral,
        ),
        CallFormat(
            "llama",
            '{"name": <function-name>, "parameters": <args-json-object>}',
            ("<|python_tag|>",),
            _read_object,
        ),
        JSON,
    )
}
"""By name, in the order in which they are tried on a template's output."""
