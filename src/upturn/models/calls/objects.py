"""Readers of calls that are JSON objects: ``hermes``, ``mistral``, and bare objects (``llama``, ``json``).

An object is ``{"name": …, "arguments": {…}}``; ``parameters`` is the same as ``arguments``; ``id`` and ``type`` may
be added. Or it names the action's parts: ``{"target_app": …, "operation": …, "parameters": {…}, "reasoning": …}``.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from upturn.models.calls.json_value import JsonPart, read_json, skip_blanks
from upturn.models.calls.names import parse_name
from upturn.models.calls.reading import Call, Reading, RefusedError, Repair, no_call, reading_of

_ARGUMENTS = ("arguments", "parameters")
_OTHER_KEYS = frozenset({"name", "id", "type"})
"""Keys that a call may have besides its arguments."""
_PARTS = frozenset({"target_app", "operation", "parameters", "reasoning"})
"""Keys of an action that names its parts."""
_CALL_KEYS = frozenset({*_OTHER_KEYS, *_PARTS, *_ARGUMENTS, "function"})
_MARKUP = ('"name"', '"arguments"', '"parameters"', '"operation"')
"""Pieces of an object that may not remain before or after calls."""
_FENCE = re.compile(r"```[a-zA-Z_]*[ \t]*\n?[ \t]*")
_FENCE_BEFORE = re.compile(r"```[a-zA-Z_]*\s*\Z")
_OPEN = re.compile(r"\{\s*[\"'}]")
_NEXT_OBJECT = re.compile(r"[\s;]*(?=\{)")
_ARGS_CALL = re.compile(r"\s*([^\s\[\]{}]+)\s*(?:\[CALL_ID\]\s*([A-Za-z0-9]+)\s*)?\[ARGS\]")
_TOOL_CALL, _TOOL_CALL_END = "<tool_call>", "</tool_call>"


class _Part(NamedTuple):
    """A JSON value in the text, in a code block or not."""

    value: Any  # a JSON border
    end: int
    repairs: frozenset[Repair]


def read_hermes(text: str) -> Reading:
    """``<tool_call>{…}</tool_call>``, any number of times."""
    start = text.find(_TOOL_CALL)
    if start < 0:
        return _read_unmarked(text)
    calls, end = list[Call](), start
    while text.startswith(_TOOL_CALL, end):
        part = _fenced_json(text, end + len(_TOOL_CALL), is_call=True)
        repairs, after = part.repairs, skip_blanks(text, part.end)
        if text.startswith(_TOOL_CALL_END, after):
            after += len(_TOOL_CALL_END)
        else:
            repairs |= {"unclosed"}
        calls.append(call_of_object(part.value, end, repairs))
        end = after
        if text.startswith(_TOOL_CALL, skip_blanks(text, after)):
            end = skip_blanks(text, after)
    return reading_of(text, start, end, calls, markup=(_TOOL_CALL, _TOOL_CALL_END, *_MARKUP))


def _read_unmarked(text: str) -> Reading:
    """A call without markers: only where it is the whole text."""
    body = text.replace(_TOOL_CALL_END, "")
    start = _FENCE.match(body.lstrip())
    if not body.lstrip()[start.end() if start else 0 :].startswith("{"):
        raise no_call(text, (_TOOL_CALL_END,))
    if text.count(_TOOL_CALL_END) > 1:
        raise RefusedError("leftover_markup", f"{_TOOL_CALL_END!r} occurs several times")
    part = _fenced_json(text, 0, is_call=True)
    after = skip_blanks(text, part.end)
    if text.startswith(_TOOL_CALL_END, after):
        after += len(_TOOL_CALL_END)
    call = call_of_object(part.value, 0, part.repairs | {"unmarked"})
    return reading_of(text, 0, after, [call], markup=(_TOOL_CALL_END, *_MARKUP))


def read_object(text: str) -> Reading:
    """Bare objects, several separated by blanks or semicolons. JSON that is no call may come before."""
    start = 0
    while True:
        opening = _OPEN.search(text, start)
        if opening is None:
            raise no_call(text, ())
        part = read_json(text, opening.start(), is_call=True)
        if isinstance(part.value, dict) and not _CALL_KEYS.isdisjoint(part.value):
            break
        start = part.end
    fence = _FENCE_BEFORE.search(text[: opening.start()])
    first = opening.start() if fence is None else fence.start()
    calls, begin, end = list[Call](), opening.start(), part.end
    while True:
        repairs = part.repairs | _fenced(is_fenced=fence is not None)
        calls.append(call_of_object(part.value, begin, repairs))
        following = _NEXT_OBJECT.match(text, end)
        if following is None:
            break
        begin = following.end()
        part = read_json(text, begin, is_call=True)
        end = part.end
    if fence and text.startswith("```", skip_blanks(text, end)):
        end = skip_blanks(text, end) + 3
    reading = reading_of(text, first, end, calls, markup=_MARKUP)
    if "text_after" in reading.calls[-1].repairs and text[end:].lstrip()[0] in "}]{[":
        raise RefusedError("leftover_markup", "brackets follow the call")
    return reading._replace(thought=reading.thought.replace("<|python_tag|>", "").strip())


def read_mistral(text: str) -> Reading:
    """``[TOOL_CALLS]`` before a list of objects, or before each ``name[ARGS]{…}``."""
    start = text.find("[TOOL_CALLS]")
    if start < 0:
        raise no_call(text, ("[ARGS]", "[CALL_ID]"))
    markup = ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", *_MARKUP)
    position = start + len("[TOOL_CALLS]")
    if _ARGS_CALL.match(text, position) is None:
        values = read_json(text, position)
        if not isinstance(values.value, list) or not values.value:
            raise RefusedError("bad_syntax", "a list of calls should follow [TOOL_CALLS]")
        starts = _item_starts(text, skip_blanks(text, position) + 1, len(values.value))
        items = zip(values.value, [start, *starts[1:]], strict=True)
        calls = [call_of_object(value, begin, values.repairs) for value, begin in items]
        return reading_of(text, start, values.end, calls, markup=markup)
    calls, end = [], start
    while text.startswith("[TOOL_CALLS]", end) and (named := _ARGS_CALL.match(text, end + len("[TOOL_CALLS]"))):
        part = _fenced_json(text, named.end())
        arguments, repairs = arguments_of(part.value)
        calls.append(Call(named.group(1), arguments, end, named.group(2), part.repairs | repairs))
        end = part.end
        if text.startswith("[TOOL_CALLS]", skip_blanks(text, end)):
            end = skip_blanks(text, end)
    return reading_of(text, start, end, calls, markup=markup)


def _item_starts(text: str, position: int, count: int) -> list[int]:
    """The indices of a list's items: ``position`` is behind its bracket."""
    starts = []
    for _ in range(count):
        position = skip_blanks(text, position)
        starts.append(position)
        position = skip_blanks(text, read_json(text, position).end) + 1
    return starts


def call_of_object(value: Any, start: int, repairs: frozenset[Repair]) -> Call:  # Any: a JSON border
    """The call in a JSON object; raises RefusedError."""
    if not isinstance(value, dict):
        raise RefusedError("bad_syntax", "a call is a JSON object")
    if "target_app" in value:
        return _from_parts(value, start, repairs)
    inner = value.get("function")
    if isinstance(inner, dict):
        if not {"id", "type", "function"}.issuperset(value):
            raise RefusedError("unknown_key", "a call with 'function' has only 'id' and 'type' beside it")
        value, repairs = {**inner, **({"id": value["id"]} if "id" in value else {})}, repairs | {"nested_function"}
    present = [key for key in _ARGUMENTS if key in value]
    unknown = sorted(value.keys() - _OTHER_KEYS - set(present))
    if unknown:
        raise RefusedError("unknown_key", f"a call has no {unknown[0][:40]!r}")
    if len(present) > 1:
        raise RefusedError("duplicate_key", "a call has either 'arguments' or 'parameters'")
    arguments, further = arguments_of(value[present[0]] if present else {})
    name, call_id = value.get("name"), value.get("id")
    if not isinstance(name, str):
        raise RefusedError("bad_name", "a call has the text 'name'")
    return Call(name, arguments, start, call_id if isinstance(call_id, str) else None, repairs | further)


def arguments_of(value: Any) -> tuple[dict[str, Any], frozenset[Repair]]:  # Any: a JSON border
    """The arguments, which may be JSON in a string; raises RefusedError."""
    if isinstance(value, dict):
        return value, frozenset()
    if isinstance(value, str) and value.strip().startswith("{"):
        part: JsonPart = read_json(value, 0)
        if isinstance(part.value, dict) and not value[part.end :].strip():
            return part.value, part.repairs | {"arguments_as_text"}
    raise RefusedError("bad_arguments", "the arguments are a JSON object")


def _from_parts(parts: Mapping[str, Any], start: int, repairs: frozenset[Repair]) -> Call:
    """As ``call_of_object``, for an object that names the action's parts."""
    target, operation, reasoning = parts["target_app"], parts.get("operation"), parts.get("reasoning", "")
    unknown = sorted(parts.keys() - _PARTS)
    if unknown:
        raise RefusedError("unknown_key", f"a call has no {unknown[0][:40]!r}")
    if not isinstance(target, str) or not isinstance(operation, str) or not isinstance(reasoning, str):
        raise RefusedError("bad_name", "'target_app', 'operation' and 'reasoning' are texts")
    if parse_name(f"{target}.{operation}") != (target, operation):
        raise RefusedError("bad_name", f"{target[:40]!r} and {operation[:40]!r} are no app and operation")
    arguments, further = arguments_of(parts.get("parameters", {}))
    return Call(f"{target}.{operation}", arguments, start, None, repairs | further, reasoning)


def _fenced(*, is_fenced: bool) -> frozenset[Repair]:
    return frozenset({"fenced"} if is_fenced else ())


def _fenced_json(text: str, start: int, *, is_call: bool = False) -> _Part:
    """The JSON value at ``start``, in a code block or not; raises RefusedError."""
    start = skip_blanks(text, start)
    fence = _FENCE.match(text, start)
    part = read_json(text, fence.end() if fence else start, is_call=is_call)
    if fence is None:
        return _Part(*part)
    end = skip_blanks(text, part.end)
    closes = text.startswith("```", end)
    return _Part(part.value, end + 3 if closes else part.end, part.repairs | {"fenced"})
