"""Streams of Anthropic Messages: a message with blocks, each started, extended and stopped in turn."""

from collections.abc import Iterator
from typing import Any

from pydantic import Field, ValidationError

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
from upturn.dialects.dialect import Json, Wire
from upturn.dialects.messages import ERRORS, FINISH, STOP_REASONS, UNSIGNED, Block, Usage, write_usage
from upturn.dialects.sse import EventParser, write_event
from upturn.errors import ModelError
from upturn.records import JsonValue


class _Started(Wire):
    id: str = ""
    model: str = ""
    usage: Usage = Field(default_factory=Usage)


class _Delta(Wire):
    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    stop_reason: str | None = None


class _Error(Wire):
    type: str = "api_error"
    message: str = "the upstream reported an error"


class _Event(Wire):
    type: str
    index: int = 0
    message: _Started | None = None
    content_block: Block | None = None
    delta: _Delta | None = None
    usage: Usage | None = None
    error: _Error | None = None


class MessagesReader:
    """Reads a stream; calls are numbered in the order of their blocks."""

    def __init__(self) -> None:
        self._parser = EventParser()
        self._calls: dict[int, int] = {}
        """Number of each call by its block's index."""
        self._usage = TokenUsage()
        self._finish: FinishReason | None = None
        self._is_over = False

    def feed(self, content: bytes) -> Iterator[StreamEvent]:
        """Raises ModelError for an event that is not of the dialect; unknown types are skipped."""
        for event in self._parser.feed(content):
            if self._is_over:
                return
            try:
                wire = _Event.model_validate_json(event.data)
            except ValidationError as exc:
                raise ModelError(f"not an event of an Anthropic message: {event.data[:300]!r}") from exc
            yield from self._read(wire)

    def end(self) -> Iterator[StreamEvent]:
        """A failure where the message was not stopped."""
        if not self._is_over:
            self._is_over = True
            yield StreamFailure("the upstream ended its stream before the answer was complete")

    def _read(self, event: _Event) -> Iterator[StreamEvent]:
        match event.type:
            case "message_start" if event.message is not None:
                self._usage = event.message.usage.counted()
                yield StreamStart(event.message.id, event.message.model, self._usage)
            case "content_block_start" if event.content_block is not None:
                yield from self._start_block(event.index, event.content_block)
            case "content_block_delta" if event.delta is not None:
                yield from self._extend_block(event.index, event.delta)
            case "message_delta":
                if event.usage is not None:
                    self._usage = event.usage.counted(self._usage)
                if event.delta is not None and event.delta.stop_reason is not None:
                    self._finish = FINISH.get(event.delta.stop_reason, "stop")
            case "message_stop":
                if self._finish is not None:
                    self._is_over = True
                    yield StreamEnd(self._finish, self._usage)
            case "error":
                self._is_over = True
                error = event.error or _Error()
                yield StreamFailure(error.message, error.type)

    def _start_block(self, index: int, block: Block) -> Iterator[StreamEvent]:
        if block.type == "tool_use":
            self._calls[index] = len(self._calls)
            yield CallDelta(self._calls[index], block.id or f"call_{index}", block.name or "")
        elif block.type == "redacted_thinking":
            yield ReasoningDelta("", block.data or "", is_redacted=True)
        elif block.text:
            yield TextDelta(block.text)

    def _extend_block(self, index: int, delta: _Delta) -> Iterator[StreamEvent]:
        match delta.type:
            case "text_delta":
                yield TextDelta(delta.text)
            case "thinking_delta":
                yield ReasoningDelta(delta.thinking)
            case "signature_delta" if delta.signature != UNSIGNED:
                yield ReasoningDelta("", delta.signature)
            case "input_json_delta" if index in self._calls and delta.partial_json:
                yield CallDelta(self._calls[index], arguments=delta.partial_json)


class MessagesWriter:
    """Writes a stream: a block starts where the kind of content changes."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._blocks = 0
        self._open: tuple[str, int] | None = None
        """Kind of the open block, and the number of its call; None = no block is open."""
        self._is_signed = False
        """Whether the open block, if it is a thought, has its signature."""

    def write(self, event: StreamEvent) -> bytes:
        """The event with the starts and stops of blocks that it needs; raises ModelError for interleaved calls."""
        match event:
            case StreamStart():
                message: Json = {
                    "id": event.id,
                    "type": "message",
                    "role": "assistant",
                    "model": event.model,
                    "content": [],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": write_usage(event.usage),
                }
                return _event("message_start", message=message)
            case TextDelta():
                opened = self._open_block(("text", 0), {"type": "text", "text": ""})
                return opened + self._delta({"type": "text_delta", "text": event.text})
            case ReasoningDelta():
                return self._write_thought(event)
            case CallDelta():
                if not event.id and self._open != ("tool_use", event.index):
                    raise ModelError(f"arguments of call {event.index} came after the next call began")
                block: Json = {"type": "tool_use", "id": event.id, "name": event.name, "input": {}}
                opened = self._open_block(("tool_use", event.index), block)
                delta: Json = {"type": "input_json_delta", "partial_json": event.arguments}
                return opened + (self._delta(delta) if event.arguments else b"")
            case StreamFailure():
                kind = event.code if event.code in ERRORS.values() else "api_error"
                error: Json = {"type": kind, "message": event.message}
                return _event("error", error=error)
            case StreamEnd():
                stop: Json = {"stop_reason": STOP_REASONS[event.finish], "stop_sequence": None}
                usage = write_usage(event.usage or TokenUsage())
                ended = _event("message_delta", delta=stop, usage=usage) + _event("message_stop")
                return self._close_block() + ended

    def _write_thought(self, event: ReasoningDelta) -> bytes:
        if event.is_redacted:
            data: Json = {"type": "redacted_thinking", "data": event.signature}
            opened = self._close_block() + self._open_block(("redacted_thinking", self._blocks), data)
            return opened + self._close_block()
        opened = self._open_block(("thinking", 0), {"type": "thinking", "thinking": "", "signature": ""})
        text = self._delta({"type": "thinking_delta", "thinking": event.text}) if event.text else b""
        if not event.signature:
            return opened + text
        self._is_signed = True
        return opened + text + self._delta({"type": "signature_delta", "signature": event.signature})

    def _open_block(self, kind: tuple[str, int], block: Json) -> bytes:
        """Nothing where a block of this kind is open."""
        if self._open == kind:
            return b""
        closed = self._close_block()
        self._open = kind
        return closed + _event("content_block_start", index=self._blocks, content_block=block)

    def _close_block(self) -> bytes:
        if self._open is None:
            return b""
        kind, self._open = self._open[0], None
        is_unsigned = kind == "thinking" and not self._is_signed
        self._is_signed = False
        signed = self._delta({"type": "signature_delta", "signature": UNSIGNED}) if is_unsigned else b""
        stopped = _event("content_block_stop", index=self._blocks)
        self._blocks += 1
        return signed + stopped

    def _delta(self, delta: Json) -> bytes:
        return _event("content_block_delta", index=self._blocks, delta=delta)


def _event(kind: str, **fields: JsonValue | Any) -> bytes:
    return write_event({"type": kind, **fields}, kind)
