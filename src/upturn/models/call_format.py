"""How models of different families write a call of a tool, and how it is read back as an action.

``hermes``: ``<tool_call>{"name": …, "arguments": {…}}</tool_call>`` (Hermes, Qwen2.5, Qwen3). ``xml``, with line
breaks between: ``<tool_call><function=name><parameter=key>value</parameter>…</function></tool_call>`` (Qwen3-Coder,
Qwen3.5 and later). ``llama``: the bare object ``{"name": …, "parameters": {…}}`` (Llama 3.1 and later).
``mistral``: ``[TOOL_CALLS] [{"name": …, "arguments": {…}, "id": …}]``, or ``[TOOL_CALLS]name[ARGS]{…}`` since
tokenizer v11.
``json``: our own for templates that know no tools, ``{"name": …, "arguments": {…}}``. A name is
``target.operation``, as in the grammar; where a format has no types, values are text, as there. Each object may
instead name the parts, ``{"target_app": …, "operation": …, "parameters": {…}, "reasoning": …}``.

One turn is one call: a text with several is read as none, because only one of them could be acted on. What stands
before the call is the action's thought; after it nothing may stand. Not covered: calls as Python (Llama 4, LFM2)
and other markup (GLM, DeepSeek, Gemma 4).
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
_BESIDE = frozenset({"name", "id", "type"})
"""What a call may hold beside its arguments."""
_PARTS = frozenset({"target_app", "operation", "parameters", "reasoning"})
"""What an action may hold that names its parts."""
_ARGS_CALL = re.compile(rf"\s*({_NAME}\.{_NAME})\s*(?:\[CALL_ID\]\s*([A-Za-z0-9]+)\s*)?\[ARGS\]\s*")
_XML_FUNCTION = re.compile(r"\s*<function=([^<>\n]+)>\s*")
_XML_PARAMETER = re.compile(r"<parameter=([^<>\n]+)>\n(.*?)\n</parameter>\s*", re.DOTALL)
_XML_END = re.compile(r"</function>\s*</tool_call>\s*\Z")
_OPEN_OBJECT = re.compile(r'\{\s*"(?:name|type|id|arguments|parameters|target_app|operation|reasoning)"')


class Call(NamedTuple):
    """What was read."""

    action: Action
    id: str | None
    """As the model named its call; None = it did not."""


@dataclass(frozen=True, slots=True)
class CallFormat:
    """One family's way to write calls."""

    name: str
    example: str
    """For instructions, where the template gives none."""
    markers: tuple[str, ...]
    """Texts around a call that a tokenizer may hold as single tokens."""
    read: Callable[[str], Call | None]
    """The one call that ends the text; None = there is none, or it cannot be read. Never raises."""
    has_types: bool = True
    """False: values are written, and read back, as text."""


def called_name(action: Action) -> str:
    """``target.operation``; raises RecordError when either is no identifier."""
    name = f"{action.target}.{action.operation}"
    if not _CALLED.match(name):
        raise RecordError(
            f"an action's target and operation must be identifiers ({_NAME}), got {action.target!r} and "
            f"{action.operation!r}; it cannot be written as a call"
        )
    return name


def written_json(action: Action) -> str:
    """The call as ``json`` has it; raises RecordError for what JSON or a name cannot hold."""
    return json.dumps({"name": called_name(action), "arguments": checked_arguments(action)}, ensure_ascii=False)


def checked_arguments(action: Action) -> dict[str, JsonValue]:
    """The parameters; raises RecordError when they are not what JSON and Unicode can hold."""
    arguments = dict(action.parameters)
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise RecordError(f"the parameters of {called_name(action)!r} cannot be written as JSON: {exc}") from exc
    return arguments


def is_same_call(written: Action, found: Action) -> bool:
    """Whether they ask for the same: values may come back as text, and the thought may be left out."""
    as_text = [
        (each.target, each.operation, {key: value_text(value) for key, value in each.parameters.items()})
        for each in (written, found)
    ]
    return as_text[0] == as_text[1]


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not finite")
    return number


def _refused(text: str) -> None:
    raise ValueError(f"{text!r} is no JSON")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refused)


def _json_at(text: str, place: int) -> tuple[Any, int] | None:  # Any: a JSON border
    """The JSON value that begins at ``place`` (after blanks) and where it ends; None = there is none."""
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    try:
        value, end = _DECODER.raw_decode(text, place)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        return None
    return value, end


def _call(found: Any, thought: str) -> Call | None:  # Any: a JSON border
    """The call that a JSON object says; None = it says none."""
    if not isinstance(found, dict):
        return None
    if "target_app" in found:
        return _from_parts(found, thought)
    given = [key for key in _ARGUMENTS if key in found]
    if len(given) > 1 or not _BESIDE.issuperset(found.keys() - set(given)):
        return None
    arguments = found[given[0]] if given else {}
    return _named(found.get("name"), arguments, found.get("id"), thought)


def _from_parts(found: Mapping[str, Any], thought: str) -> Call | None:
    """As ``_call``, of an object that names the action's parts."""
    target, operation, reasoning = found["target_app"], found.get("operation"), found.get("reasoning", "")
    if not _PARTS.issuperset(found) or not all(isinstance(each, str) for each in (target, operation, reasoning)):
        return None
    thoughts = "\n".join(each for each in (thought.strip(), reasoning) if each)
    return _named(f"{target}.{operation}", found.get("parameters", {}), None, thoughts)


def _named(name: object, arguments: object, call_id: object, thought: str) -> Call | None:
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    match = _CALLED.match(name)
    if match is None:
        return None
    action = Action(match.group(1), match.group(2), arguments, thought.strip())
    return Call(action, call_id if isinstance(call_id, str) else None)


def _after(text: str, marker: str) -> Iterator[int]:
    """Where the text goes on after each occurrence of the marker."""
    place = text.find(marker)
    while place >= 0:
        yield place + len(marker)
        place = text.find(marker, place + len(marker))


def _read_hermes(text: str) -> Call | None:
    for start in _after(text, "<tool_call>"):
        found = _json_at(text, start)
        if found is None:
            continue
        rest = text[found[1] :].strip()
        return _call(found[0], text[: start - len("<tool_call>")]) if rest == "</tool_call>" else None
    return None


def _read_xml(text: str) -> Call | None:
    for start in _after(text, "<tool_call>"):
        named = _XML_FUNCTION.match(text, start)
        if named is None:
            continue
        parameters: dict[str, JsonValue] = {}
        place = named.end()
        while match := _XML_PARAMETER.match(text, place):
            if match.group(1) in parameters:
                return None
            parameters[match.group(1)] = match.group(2)
            place = match.end()
        is_whole = _XML_END.match(text, place) is not None
        return _named(named.group(1), parameters, None, text[: start - len("<tool_call>")]) if is_whole else None
    return None


def _read_object(text: str) -> Call | None:
    for match in _OPEN_OBJECT.finditer(text):
        found = _json_at(text, match.start())
        if found is not None:
            thought = text[: match.start()].replace("<|python_tag|>", "")
            return None if text[found[1] :].strip() else _call(found[0], thought)
    return None


def _read_mistral(text: str) -> Call | None:
    thought, marker, rest = text.partition("[TOOL_CALLS]")
    if not marker:
        return None
    named = _ARGS_CALL.match(rest)
    found = _json_at(rest, named.end() if named else 0)
    if found is None or rest[found[1] :].strip():
        return None
    if named is not None:
        return _named(named.group(1), found[0], named.group(2), thought)
    calls = found[0] if isinstance(found[0], list) else []
    return _call(calls[0], thought) if len(calls) == 1 else None


JSON = CallFormat("json", '{"name": <function-name>, "arguments": <args-json-object>}', (), _read_object)
"""Ours, for templates without tools."""

CALL_FORMATS: Mapping[str, CallFormat] = {
    each.name: each
    for each in (
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
"""By name, in the order they are tried on what a template writes."""
