"""The reader of gpt-oss's messages (harmony), after the prompt's ``<|start|>assistant``.

A call is ``<|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}``, as the models write it, or
``to=functions.name<|channel|>commentary json<|message|>{…}``, as their template does. ``analysis`` messages before it
are its thought; a ``final`` message is an answer without a call.

https://cookbook.openai.com/articles/openai-harmony
"""

import re

from upturn.models.calls.json_value import read_json
from upturn.models.calls.objects import arguments_of
from upturn.models.calls.reading import Call, Reading, RefusedError, check_around

_START, _MESSAGE, _END = "<|start|>", "<|message|>", "<|end|>"
_MARKUP = (_START, _MESSAGE, _END, "<|channel|>", "<|constrain|>", "to=functions.")
_CHANNEL = r"<\|channel\|>(?P<channel>analysis|commentary|final)"
_HEADER = re.compile(
    rf"\s*(?:{_CHANNEL}\s*(?:to=(?P<to>\S+?))?|to=(?P<first_to>[^\s<]+)\s*{_CHANNEL.replace('P<channel>', 'P<second>')})"
    r"\s*(?:<\|constrain\|>)?\s*(?P<type>[A-Za-z]*)\s*\Z"
)


def read_harmony(text: str) -> Reading:
    """The call in the last message."""
    *before, last = _messages(text)
    thoughts = []
    for message in before:
        if message.function is not None:
            raise RefusedError("several_calls", "a message after a call")
        thoughts.append(message.content.strip())
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


class _Message:
    """One message of the output."""

    def __init__(self, text: str, start: int) -> None:
        """``text``: from the header on. Raises RefusedError."""
        header, separator, self.content = text.partition(_MESSAGE)
        match = _HEADER.match(header)
        if not separator or match is None:
            raise RefusedError("bad_syntax", f"{header[:40]!r} is no header of a message")
        recipient = match["to"] or match["first_to"]
        channel = match["channel"] or match["second"]
        self.start = start
        self.function: str | None = None
        if recipient is not None:
            name = recipient.removeprefix("functions.")
            if name == recipient or channel == "final" or match["type"] not in {"", "json"}:
                raise RefusedError("bad_name", f"{recipient[:40]!r} is no function that is offered")
            self.function = name


def _messages(text: str) -> list[_Message]:
    messages, start = [], 0
    for piece in text.split(_END):
        body = piece
        if start:
            body = piece.removeprefix(f"{_START}assistant")
            if body == piece:
                raise RefusedError("control_tokens", "a message of another role follows")
        if _START in body:
            raise RefusedError("control_tokens", "a message starts inside another")
        messages.append(_Message(body, start))
        start += len(piece) + len(_END)
    return messages
