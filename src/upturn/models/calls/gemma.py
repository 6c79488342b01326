"""The reader of Gemma 4's calls: ``<|tool_call>call:name{key:value,…}<tool_call|>``.

Keys are bare; a string is between two ``<|"|>`` and has no escapes; other values are as in JSON.
"""

import re
from typing import Any

from upturn.models.calls.json_value import ValueParser, check_unicode, put, read_json, skip_blanks
from upturn.models.calls.reading import Call, Reading, RefusedError, Repair, no_call, reading_of

_OPEN, _CLOSE, _QUOTE = "<|tool_call>", "<tool_call|>", '<|"|>'
_NAME = re.compile(r"\s*call:\s*([^\s{}<>]+)\s*(?=\{)")
_KEY = re.compile(r"[\w.$@-]+")
_SCALAR = re.compile(r"[^\s{}\[\]:,<>]+")
_THOUGHT, _THOUGHT_END = "<|channel>", "<channel|>"


def read_gemma(text: str) -> Reading:
    """Any number of calls after an optional thought."""
    start = text.find(_OPEN)
    if start < 0:
        raise no_call(text, (_CLOSE, _QUOTE))
    calls, end = list[Call](), start
    while text.startswith(_OPEN, end):
        name = _NAME.match(text, end + len(_OPEN))
        if name is None:
            raise RefusedError("bad_syntax", "'call:name{' should follow '<|tool_call>'")
        parser = _GemmaParser(text, name.end())
        arguments = parser.value(0)
        check_unicode(arguments)
        repairs: set[Repair] = set(parser.repairs)
        if not parser.take(_CLOSE):
            repairs.add("unclosed")
        calls.append(Call(name.group(1), arguments, end, None, frozenset(repairs)))
        end = parser.position
        if text.startswith(_OPEN, skip_blanks(text, end)):
            end = skip_blanks(text, end)
    reading = reading_of(text, start, end, calls, markup=(_OPEN, _CLOSE, _QUOTE))
    return reading._replace(thought=_thought(reading.thought))


def _thought(text: str) -> str:
    """The thought without its channel's markers."""
    inner = text.removeprefix(_THOUGHT).removeprefix("thought\n")
    return inner.replace(_THOUGHT_END, "\n").strip() if text.startswith(_THOUGHT) else text


class _GemmaParser(ValueParser):
    """Reads values with Gemma's keys and strings."""

    def value(self, depth: int) -> Any:
        """The value at the position."""
        self.blanks()
        if depth > 0 and self.text.startswith(_QUOTE, self.position):
            return self.quoted()
        if self.text.startswith('"', self.position):
            return self._json_string()
        if self.text[self.position : self.position + 1] in {"{", "["}:
            return super().value(depth)
        scalar = _SCALAR.match(self.text, self.position)
        if scalar is None:
            raise self.failure("a value")
        parser = ValueParser(scalar.group(), 0, is_python=True)
        value = parser.value(0)
        if isinstance(value, str) or parser.position < len(scalar.group()):
            raise self.failure("a value")
        self.position = scalar.end()
        return value

    def quoted(self) -> str:
        """The text between two quote markers."""
        begin = self.position + len(_QUOTE)
        end = self.text.find(_QUOTE, begin)
        if end < 0:
            raise RefusedError("unclosed", "the call stops inside a string")
        self.position = end + len(_QUOTE)
        return self.text[begin:end]

    def _object(self, depth: int) -> dict[str, Any]:
        self.position += 1
        named: dict[str, Any] = {}

        def member() -> None:
            key = self._key()
            if not self.take(":"):
                raise self.failure("':'")
            put(named, key, self.value(depth + 1))

        self.items("}", member)
        return named

    def _key(self) -> str:
        self.blanks()
        if self.text.startswith(_QUOTE, self.position):
            return self.quoted()
        if self.text.startswith('"', self.position):
            return self._json_string()
        key = _KEY.match(self.text, self.position)
        if key is None:
            raise self.failure("a key")
        self.position = key.end()
        return key.group()

    def _json_string(self) -> str:
        part = read_json(self.text, self.position)
        self.position = part.end
        self.repairs |= {"json_strings", *part.repairs}
        assert isinstance(part.value, str)
        return part.value
