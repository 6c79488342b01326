"""The dialects, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from upturn.dialects import chat, messages, responses
from upturn.dialects.chat_stream import ChatReader, ChatWriter
from upturn.dialects.conversation import ModelAnswer, ModelRequest
from upturn.dialects.dialect import Dialect, EventReader, EventWriter, Json, RequestError
from upturn.dialects.messages_stream import MessagesReader, MessagesWriter
from upturn.dialects.responses_stream import ResponsesReader, ResponsesWriter
from upturn.errors import UnknownNameError

DialectName = Literal["chat", "responses", "messages"]


@dataclass(frozen=True, slots=True)
class _Functions:
    """A dialect made of functions."""

    name: str
    path: str
    request_schema: Callable[[], Json]
    read_request: Callable[[bytes], ModelRequest]
    write_request: Callable[[ModelRequest], Json]
    read_answer: Callable[[bytes], ModelAnswer]
    write_answer: Callable[[ModelAnswer, ModelRequest], Json]
    reader: Callable[[], EventReader]
    writer: Callable[[ModelRequest], EventWriter]
    error: Callable[[RequestError], Json]


DIALECTS: Mapping[str, Dialect] = {
    "chat": _Functions(
        "chat",
        "/chat/completions",
        chat.Request.model_json_schema,
        chat.read_request,
        chat.write_request,
        chat.read_answer,
        chat.write_answer,
        ChatReader,
        ChatWriter,
        chat.write_error,
    ),
    "responses": _Functions(
        "responses",
        "/responses",
        responses.Request.model_json_schema,
        responses.read_request,
        responses.write_request,
        responses.read_answer,
        responses.write_answer,
        ResponsesReader,
        ResponsesWriter,
        chat.write_error,
    ),
    "messages": _Functions(
        "messages",
        "/messages",
        messages.Request.model_json_schema,
        messages.read_request,
        messages.write_request,
        messages.read_answer,
        messages.write_answer,
        MessagesReader,
        MessagesWriter,
        messages.write_error,
    ),
}


def dialect_of(name: str) -> Dialect:
    """Raises UnknownNameError for a name that is not in DIALECTS."""
    if name not in DIALECTS:
        raise UnknownNameError(f"no dialect {name!r}; known: {', '.join(DIALECTS)}")
    return DIALECTS[name]
