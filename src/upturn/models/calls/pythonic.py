"""The reader of calls as Python: ``<|tool_call_start|>[name(key=value, …), …]<|tool_call_end|>`` (LFM2, LFM2.5).

Values are Python literals; JSON's constants, line breaks in strings, and a backslash that begins no escape are
right too, because the models' templates write them.
"""

import re
from typing import Any

from upturn.models.calls.json_value import ValueParser, check_unicode, put
from upturn.models.calls.reading import Call, Reading, RefusedError, no_call, reading_of

_OPEN, _CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"
_NAME = re.compile(r"\s*([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*\(", re.ASCII)
_KEY = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)")


def read_python(text: str) -> Reading:
    """The calls of one list."""
    start = text.find(_OPEN)
    if start < 0:
        raise no_call(text, (_CLOSE,))
    parser = ValueParser(text, start + len(_OPEN), is_python=True)
    if not parser.take("["):
        raise parser.failure("'['")
    calls: list[Call] = []
    parser.items("]", lambda: calls.append(_call(parser, start if not calls else None)))
    if not calls:
        raise RefusedError("no_call", "the list of calls is empty")
    if not parser.take(_CLOSE):
        calls[-1] = calls[-1]._replace(repairs=calls[-1].repairs | {"unclosed"})
    for call in calls:
        check_unicode(call.arguments)
    return reading_of(text, start, parser.position, calls, markup=(_OPEN, _CLOSE))


def _call(parser: ValueParser, start: int | None) -> Call:
    """The call at the parser's position; ``start``: None = it starts there."""
    parser.blanks()
    begin = parser.position if start is None else start
    name = _NAME.match(parser.text, parser.position)
    if name is None:
        raise parser.failure("'name('")
    parser.position = name.end()
    arguments: dict[str, Any] = {}

    def argument() -> None:
        key = _KEY.match(parser.text, parser.position)
        if key is None:
            raise parser.failure("'key='")
        parser.position = key.end()
        put(arguments, key.group(1), parser.value(0))

    parser.items(")", argument)
    return Call(name.group(1), arguments, begin)
