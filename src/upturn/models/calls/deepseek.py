"""The reader of DeepSeek V3.1's calls, and of V3's, which have the type ``function`` and a code block.

``<｜tool▁calls▁begin｜>``, then for each call ``<｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}<｜tool▁call▁end｜>``,
then ``<｜tool▁calls▁end｜>``.
"""

import re

from upturn.models.calls.json_value import read_json, skip_blanks
from upturn.models.calls.objects import arguments_of
from upturn.models.calls.reading import Call, Reading, RefusedError, Repair, no_call, reading_of

_BEGIN, _END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL, _CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
_NAME = re.compile(r"\s*([^\s<>]+)\s*<｜tool▁sep｜>\s*(?:([^\s{`]+)\s*```json\s*)?")


def read_deepseek(text: str) -> Reading:
    """The calls of one block."""
    start = text.find(_BEGIN)
    if start < 0:
        raise no_call(text, (_END, _CALL, _CALL_END))
    calls, end = list[Call](), skip_blanks(text, start + len(_BEGIN))
    while text.startswith(_CALL, end):
        call, end = _call(text, end, start if not calls else end)
        calls.append(call)
    if not calls:
        raise RefusedError("bad_syntax", f"{_CALL!r} should follow {_BEGIN!r}")
    if text.startswith(_END, end):
        end += len(_END)
    else:
        calls[-1] = calls[-1]._replace(repairs=calls[-1].repairs | {"unclosed"})
    return reading_of(text, start, end, calls, markup=(_BEGIN, _END, _CALL, _CALL_END, "<｜tool▁sep｜>"))


def _call(text: str, position: int, start: int) -> tuple[Call, int]:
    """The call whose marker is at ``position``, and the index after it and blanks."""
    name = _NAME.match(text, position + len(_CALL))
    if name is None:
        raise RefusedError("bad_syntax", f"a name and '<｜tool▁sep｜>' should follow {_CALL!r}")
    part = read_json(text, name.end())
    arguments, repairs = arguments_of(part.value)
    made: frozenset[Repair] = part.repairs | repairs
    end = skip_blanks(text, part.end)
    if name.group(2) is not None and text.startswith("```", end):
        end = skip_blanks(text, end + 3)
    if text.startswith(_CALL_END, end):
        end = skip_blanks(text, end + len(_CALL_END))
    else:
        made |= {"unclosed"}
    return Call(name.group(2) or name.group(1), arguments, start, None, made), end
