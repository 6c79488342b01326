"""Readers of calls in markup without types: ``xml`` (Qwen3-Coder and later) and ``glm`` (GLM-4.5 and later).

Values are the text between their tags; types are restored from the tool's schema, where it has one
(``upturn.models.calls.schema``).
"""

import re

from upturn.models.calls.json_value import put, skip_blanks
from upturn.models.calls.reading import Call, Reading, RefusedError, Repair, no_call, reading_of, unclosed

_FUNCTION = re.compile(r"\s*<function=([^<>\n]+)>\s*")
_PARAMETER = re.compile(r"<parameter=([^<>\n]+)>(.*?)</parameter>\s*", re.DOTALL)
_FUNCTION_END = re.compile(r"</function>\s*")
_GLM_NAME = re.compile(r"\s*([^\s<>]+)\s*")
_GLM_PAIR = re.compile(r"<arg_key>([^<>]*)</arg_key>\s*<arg_value>(.*?)</arg_value>\s*", re.DOTALL)
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_XML_MARKUP = (_OPEN, _CLOSE, "<function=", "</function>", "<parameter=", "</parameter>")
_GLM_MARKUP = (_OPEN, _CLOSE, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")


def read_xml(text: str) -> Reading:
    """``<tool_call><function=name><parameter=key>value</parameter>…</function></tool_call>``."""
    start = text.find(_OPEN)
    is_marked = start >= 0
    if not is_marked:
        start = text.find("<function=")
        if start < 0 or text[:start].strip():
            raise no_call(text, _XML_MARKUP)
    calls, end = list[Call](), start
    while text.startswith(_OPEN if is_marked else "<function=", end):
        call, end = _xml_call(text, end, is_marked=is_marked)
        calls.append(call)
    return reading_of(text, start, end, calls, markup=_XML_MARKUP)


def _xml_call(text: str, start: int, *, is_marked: bool) -> tuple[Call, int]:
    """The call at ``start``, and the index after it and blanks."""
    function = _FUNCTION.match(text, start + len(_OPEN) if is_marked else start)
    if function is None:
        raise RefusedError("bad_syntax", "'<function=name>' should follow '<tool_call>'")
    repairs: set[Repair] = set() if is_marked else {"unmarked"}
    arguments: dict[str, str] = {}
    position = function.end()
    while match := _PARAMETER.match(text, position):
        value = match.group(2)
        inner = value.removeprefix("\n").removesuffix("\n")
        if len(inner) != len(value) - 2:
            if "\n" in inner:
                raise RefusedError("bad_syntax", "line breaks surround a value of several lines")
            repairs.add("inline_value")
        put(arguments, match.group(1), inner)
        position = match.end()
    closed = _FUNCTION_END.match(text, position)
    if closed is None:
        raise unclosed(text, position, "'<parameter=name>' or '</function>'")
    position = closed.end()
    if text.startswith(_CLOSE, position):
        position = skip_blanks(text, position + len(_CLOSE))
    elif is_marked:
        repairs.add("unclosed")
    call = Call(function.group(1), dict(arguments), start, None, frozenset(repairs))
    _check_values(call, ("<parameter=", "<function=", "</function>"))
    return call, position


def read_glm(text: str) -> Reading:
    """``<tool_call>name <arg_key>key</arg_key><arg_value>value</arg_value>…</tool_call>``."""
    start = text.find(_OPEN)
    if start < 0:
        raise no_call(text, _GLM_MARKUP)
    calls, end = list[Call](), start
    while text.startswith(_OPEN, end):
        name = _GLM_NAME.match(text, end + len(_OPEN))
        if name is None:
            raise RefusedError("bad_name", "the function's name should follow '<tool_call>'")
        arguments: dict[str, str] = {}
        position = name.end()
        while pair := _GLM_PAIR.match(text, position):
            put(arguments, pair.group(1), pair.group(2))
            position = pair.end()
        # without the closing tag, further arguments may be missing
        if not text.startswith(_CLOSE, position):
            raise unclosed(text, position, "'<arg_key>' or '</tool_call>'")
        calls.append(Call(name.group(1), dict(arguments), end))
        _check_values(calls[-1], ("<arg_key>", "</arg_key>", "<arg_value>"))
        end = skip_blanks(text, position + len(_CLOSE))
    return reading_of(text, start, end, calls, markup=_GLM_MARKUP)


def _check_values(call: Call, markup: tuple[str, ...]) -> None:
    """Raises RefusedError for a value that contains the beginning of another: its own end is missing."""
    for value in call.arguments.values():
        for piece in markup:
            if piece in str(value):
                raise RefusedError("leftover_markup", f"{piece!r} occurs inside a value")
