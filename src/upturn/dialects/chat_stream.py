"""Streams of chat completions: chunks of a choice, an optional chunk of usage, and ``[DONE]``.

An answer that breaks off ends with an error chunk and without ``[DONE]``, which clients take for success.
"""

from collections.abc import Iterator
from time import time

from pydantic import Field, ValidationError

from upturn.dialects.chat import FINISH, Usage, write_usage
from upturn.dialects.conversation import (
    CallDelta,
    FinishReason,
    ModelRequest,
    ReasoningDelta,
    StreamEnd,
    StreamEvent,
    StreamFailure,
    StreamStart,
    TextDelta,
    TokenUsage,
)
from upturn.dialects.dialect import BROKEN_OFF, Json, Wire
from upturn.dialects.sse import EventParser, write_event
from upturn.errors import ModelError
from upturn.records import JsonValue

DONE = "[DONE]"


class _Function(Wire):
    name: str | None = None
    arguments: str | None = None


class _Call(Wire):
    index: int = 0
    id: str | None = None
    function: _Function | None = None


class _Delta(Wire):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Wire):
    delta: _Delta = Field(default_factory=_Delta)
    finish_reason: str | None = None


class _Error(Wire):
    message: str = "the upstream reported an error"
    code: str | int | None = None


class _Chunk(Wire):
    id: str = ""
    model: str = ""
    choices: list[_Choice] = Field(default_factory=list)
    usage: Usage | None = None
    error: _Error | str | None = None


class ChatReader:
    """Reads a stream. The end comes after the usage, which follows the chunk with the finish reason."""

    def __init__(self) -> None:
        self._parser = EventParser()
        self._is_started = False
        self._is_over = False
        self._finish: FinishReason | None = None
        self._usage: TokenUsage | None = None
        self._has_calls = False

    def feed(self, content: bytes) -> Iterator[StreamEvent]:
        """Raises ModelError for an event that is not a chunk."""
        for event in self._parser.feed(content):
            if self._is_over:
                return
            if event.data == DONE:
                yield from self.end()
                return
            try:
                chunk = _Chunk.model_validate_json(event.data)
            except ValidationError as exc:
                raise ModelError(f"not a chunk of a chat completion: {event.data[:300]!r}") from exc
            yield from self._read(chunk)

    def end(self) -> Iterator[StreamEvent]:
        """The end, or a failure where no finish reason came."""
        if self._is_over:
            return
        self._is_over = True
        if self._finish is None:
            yield BROKEN_OFF
        else:
            yield StreamEnd(self._finish, self._usage)

    def _read(self, chunk: _Chunk) -> Iterator[StreamEvent]:
        if chunk.error is not None:
            self._is_over = True
            error = _Error(message=chunk.error) if isinstance(chunk.error, str) else chunk.error
            yield StreamFailure(error.message, str(error.code or "upstream_error"))
            return
        if not self._is_started:
            self._is_started = True
            yield StreamStart(chunk.id, chunk.model)
        if chunk.usage is not None:
            self._usage = chunk.usage.counted()
        for choice in chunk.choices[:1]:
            yield from self._read_delta(choice.delta)
            if choice.finish_reason is not None:
                finish = FINISH.get(choice.finish_reason, "stop")
                self._finish = "tool_calls" if self._has_calls and finish == "stop" else finish

    def _read_delta(self, delta: _Delta) -> Iterator[StreamEvent]:
        if thought := delta.reasoning_content or delta.reasoning:
            yield ReasoningDelta(thought)
        if text := delta.content or delta.refusal:
            yield TextDelta(text)
        for call in delta.tool_calls or ():
            self._has_calls = True
            function = call.function or _Function()
            yield CallDelta(call.index, call.id or "", function.name or "", function.arguments or "")


class ChatWriter:
    """Writes a stream for the client of a request."""

    def __init__(self, request: ModelRequest) -> None:
        self._has_usage = request.has_stream_usage
        self._head: Json = {}

    def write(self, event: StreamEvent) -> bytes:
        """Signatures of thoughts are dropped: the dialect has no field for them."""
        match event:
            case StreamStart():
                self._head = {
                    "id": event.id,
                    "object": "chat.completion.chunk",
                    "created": int(time()),
                    "model": event.model,
                }
                return self._chunk({"role": "assistant", "content": ""})
            case TextDelta():
                return self._chunk({"content": event.text})
            case ReasoningDelta():
                return self._chunk({"reasoning_content": event.text}) if event.text else b""
            case CallDelta():
                return self._chunk({"tool_calls": [_write_call(event)]})
            case StreamFailure():
                error: Json = {"message": event.message, "type": "server_error", "param": None, "code": event.code}
                return write_event({"error": error})
            case StreamEnd():
                usage = event.usage or TokenUsage()
                last = write_event({**self._head, "choices": [], "usage": write_usage(usage)})
                return self._chunk({}, event.finish) + (last if self._has_usage else b"") + write_event(DONE)

    def _chunk(self, delta: Json, finish: FinishReason | None = None) -> bytes:
        choice: Json = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        body: Json = {**self._head, "choices": [choice]}
        return write_event(body | ({"usage": None} if self._has_usage else {}))


def _write_call(event: CallDelta) -> JsonValue:
    if not event.id:
        return {"index": event.index, "function": {"arguments": event.arguments}}
    function: Json = {"name": event.name, "arguments": event.arguments}
    return {"index": event.index, "id": event.id, "type": "function", "function": function}
