"""The reader of gpt-oss's messages (harmony), after the prompt's ``<|start|>assistant``.

A call is ``<|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}``, as the models write it, or
``to=functions.name<|channel|>commentary json<|message|>{…}``, as their template does. ``analysis`` messages before
it are its thought; a ``final`` message is an answer without a call.

https://cookbook.openai.com/articles/openai-harmony
"""

import re
from typing import NamedTuple

from upturn.models.calls.json_value import read_json
from upturn.models.calls.objects import arguments_of
from upturn.models.calls.reading import Call, Reading, RefusedError, check_around

_START, _MESSAGE, _END = "<|start|>", "<|message|>", "<|end|>"
_MARKUP = (_START, _MESSAGE, _END, "<|channel|>", "<|constrain|>", "to=functions.")
_CHANNEL = r"<\|channel\|>(?P<channel>analysis|commentary|final)"
_SECOND = _CHANNEL.replace("P<channel>", "P<second>")
_HEADER = re.compile(
    rf"\s*(?:{_CHANNEL}\s*(?:to=(?P<to>\S+?))?|to=(?P<first_to>[^\s<]+)\s*{_SECOND})"
    r"\s*(?:<\|constrain\|>)?\s*(?P<type>[A-Za-z]*)\s*\Z"
)


def read_harmony(text: str) -> Reading:
    """The call in the last message."""
    *before, last = _messages(text)
    thoughts = [message.content.strip() for message in before]
    if last.function is None:
        raise RefusedError("no_call", "the message calls no function")
    part = read_json(last.content, 0)
    further = check_around(last.content, 0, part.end, _MARKUP)
    arguments, repairs = arguments_of(part.value)
    call = Call(last.function, arguments, last.start, None, part.repairs | repairs | further)
    return Reading("\n".join(filter(None, thoughts)), (call,))


def final_text(text: str) -> str:
    """The answer in a message without a call: the last message's text; the whole text where it is not harmony."""
    try:
        return _messages(text)[-1].content.strip()
    except RefusedError:
        return text


class _Message(NamedTuple):
    """One message of the output."""

    start: int
    content: str
    function: str | None
    """The function that the message calls; None = it calls none."""


def _messages(text: str) -> list[_Message]:
    """The messages, of which only the last may be a call. Raises RefusedError."""
    messages, start = list[_Message](), 0
    while True:
        header, separator, rest = text[start:].partition(_MESSAGE)
        if start:
            body = header.removeprefix(f"{_START}assistant")
            if body == header:
                raise RefusedError("control_tokens", "a message of another role follows")
            header = body
        match = _HEADER.match(header)
        if not separator or match is None:
            raise RefusedError("bad_syntax", f"{header[:40]!r} is no header of a message")
        function = _function(match)
        if function is not None:
            return [*messages, _Message(start, rest, function)]
        content, end, _ = rest.partition(_END)
        if _START in content:
            raise RefusedError("control_tokens", "a message starts inside another")
        messages.append(_Message(start, content, None))
        start = len(text) - len(rest) + len(content) + len(end)
        if not text[start:].strip():
            return messages


def _function(header: "re.Match[str]") -> str | None:
    """The function that a message with this header calls; None = none. Raises RefusedError."""
    recipient = header["to"] or header["first_to"]
    if recipient is None:
        return None
    name = recipient.removeprefix("functions.")
    is_final = "final" in (header["channel"], header["second"])
    if name == recipient or is_final or header["type"] not in {"", "json"}:
        raise RefusedError("bad_name", f"{recipient[:40]!r} is no function that is offered")
    return str(name)
