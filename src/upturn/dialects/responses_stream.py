"""Streams of OpenAI Responses: numbered events about items, their parts, and the response as a whole."""

from collections.abc import Iterator

from pydantic import ValidationError

from upturn.dialects.conversation import (
    CallDelta,
    ModelRequest,
    Part,
    Reasoning,
    ReasoningDelta,
    StreamEnd,
    StreamEvent,
    StreamFailure,
    StreamStart,
    Text,
    TextDelta,
    TokenUsage,
    ToolCall,
)
from upturn.dialects.dialect import BROKEN_OFF, Json, Wire
from upturn.dialects.responses import Answer, Item, response_object, write_item, write_text
from upturn.dialects.sse import EventParser, write_event
from upturn.errors import ModelError
from upturn.records import JsonValue


class _Event(Wire):
    type: str
    output_index: int = 0
    delta: str = ""
    item: Item | None = None
    response: Answer | None = None
    message: str = ""
    code: str | None = None


class ResponsesReader:
    """Reads a stream; calls are numbered in the order of their items."""

    def __init__(self) -> None:
        self._parser = EventParser()
        self._calls: dict[int, int] = {}
        """Number of each call by its item's index."""
        self._is_over = False

    def feed(self, content: bytes) -> Iterator[StreamEvent]:
        """Raises ModelError for an event that is not of the dialect; unknown types are skipped."""
        for event in self._parser.feed(content):
            if self._is_over or event.data == "[DONE]":
                return
            try:
                wire = _Event.model_validate_json(event.data)
            except ValidationError as exc:
                raise ModelError(f"not an event of a response: {event.data[:300]!r}") from exc
            yield from self._read(wire)

    def end(self) -> Iterator[StreamEvent]:
        """A failure where the response was not completed."""
        if not self._is_over:
            self._is_over = True
            yield BROKEN_OFF

    def _read(self, event: _Event) -> Iterator[StreamEvent]:
        match event.type:
            case "response.created" if event.response is not None:
                yield StreamStart(event.response.id, event.response.model)
            case "response.output_text.delta" | "response.refusal.delta":
                yield TextDelta(event.delta)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield ReasoningDelta(event.delta)
            case "response.output_item.added" if event.item is not None and event.item.type == "function_call":
                self._calls[event.output_index] = len(self._calls)
                call_id = event.item.call_id or f"call_{event.output_index}"
                yield CallDelta(self._calls[event.output_index], call_id, event.item.name or "")
            case "response.function_call_arguments.delta" if event.output_index in self._calls:
                yield CallDelta(self._calls[event.output_index], arguments=event.delta)
            case "response.output_item.done" if event.item is not None and event.item.encrypted_content:
                yield ReasoningDelta("", event.item.encrypted_content)
            case "response.completed" | "response.incomplete" if event.response is not None:
                self._is_over = True
                yield StreamEnd(event.response.finish(), event.response.counted())
            case "response.failed":
                self._is_over = True
                error = event.response and event.response.error
                yield StreamFailure(error.message if error else "the response failed", "upstream_error")
            case "error":
                self._is_over = True
                yield StreamFailure(
                    event.message or "the upstream reported an error", event.code or "upstream_error"
                )


class ResponsesWriter:
    """Writes a stream: an item starts where the kind of content changes."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._number = 0
        self._id, self._model = "", ""
        self._done: list[JsonValue] = []
        """Finished items."""
        self._open: Part | None = None
        """The item that is being written; None = none."""
        self._call = -1
        """Number of the open item's call; −1 = it is none."""

    def write(self, event: StreamEvent) -> bytes:
        """The event with the starts and stops of items that it needs; raises ModelError for interleaved calls."""
        match event:
            case StreamStart():
                self._id, self._model = event.id, event.model
                shown = self._response(None, None)
                created = self._event("response.created", response=shown)
                return created + self._event("response.in_progress", response=shown)
            case TextDelta():
                return self._extend_text(event.text)
            case ReasoningDelta():
                return self._extend_thought(event)
            case CallDelta():
                return self._extend_call(event)
            case StreamFailure():
                failed = self._response(None, None)
                failed |= {"status": "failed", "error": {"code": "server_error", "message": event.message}}
                return self._event("response.failed", response=failed)
            case StreamEnd():
                closed = self._close()
                kind = "incomplete" if event.finish in ("length", "content_filter") else "completed"
                whole = self._response(event, event.usage or TokenUsage())
                return closed + self._event(f"response.{kind}", response=whole)

    def _extend_text(self, text: str) -> bytes:
        opened = b""
        if not isinstance(self._open, Text):
            opened = self._start(Text(""))
            part: Json = {"item_id": self._item_id, "content_index": 0, "part": write_text("")}
            opened += self._event("response.content_part.added", output_index=len(self._done), **part)
        assert isinstance(self._open, Text)
        self._open = Text(self._open.text + text)
        fields: Json = {"item_id": self._item_id, "content_index": 0, "delta": text, "logprobs": []}
        return opened + self._event("response.output_text.delta", output_index=len(self._done), **fields)

    def _extend_thought(self, event: ReasoningDelta) -> bytes:
        opened = b""
        if not isinstance(self._open, Reasoning):
            opened = self._start(Reasoning())
            part: Json = {
                "item_id": self._item_id,
                "summary_index": 0,
                "part": {"type": "summary_text", "text": ""},
            }
            opened += self._event("response.reasoning_summary_part.added", output_index=len(self._done), **part)
        assert isinstance(self._open, Reasoning)
        self._open = Reasoning(self._open.text + event.text, self._open.signature + event.signature)
        if not event.text:
            return opened
        fields: Json = {"item_id": self._item_id, "summary_index": 0, "delta": event.text}
        return opened + self._event("response.reasoning_summary_text.delta", output_index=len(self._done), **fields)

    def _extend_call(self, event: CallDelta) -> bytes:
        opened = b""
        if event.id:
            opened = self._start(ToolCall(event.id, event.name, ""))
            self._call = event.index
        elif self._call != event.index:
            raise ModelError(f"arguments of call {event.index} came after the next call began")
        if not event.arguments:
            return opened
        assert isinstance(self._open, ToolCall)
        self._open = ToolCall(self._open.id, self._open.name, self._open.arguments + event.arguments)
        fields: Json = {"item_id": self._item_id, "delta": event.arguments}
        return opened + self._event(
            "response.function_call_arguments.delta", output_index=len(self._done), **fields
        )

    @property
    def _item_id(self) -> str:
        return f"{self._id}_{len(self._done)}"

    def _start(self, part: Part) -> bytes:
        closed = self._close()
        self._open, self._call = part, -1
        item = write_item(part, self._item_id, status="in_progress")
        return closed + self._event("response.output_item.added", output_index=len(self._done), item=item)

    def _close(self) -> bytes:
        part, index = self._open, len(self._done)
        if part is None:
            return b""
        ended = b""
        where: Json = {"item_id": self._item_id, "output_index": index}
        match part:
            case Text():
                content: Json = {**where, "content_index": 0}
                ended += self._event("response.output_text.done", **content, text=part.text, logprobs=[])
                ended += self._event("response.content_part.done", **content, part=write_text(part.text))
            case Reasoning():
                summary: Json = {**where, "summary_index": 0}
                shown: Json = {"type": "summary_text", "text": part.text}
                ended += self._event("response.reasoning_summary_text.done", **summary, text=part.text)
                ended += self._event("response.reasoning_summary_part.done", **summary, part=shown)
            case ToolCall():
                ended += self._event(
                    "response.function_call_arguments.done", **where, name=part.name, arguments=part.arguments
                )
        item = write_item(part, self._item_id)
        ended += self._event("response.output_item.done", output_index=index, item=item)
        self._done.append(item)
        self._open = None
        return ended

    def _response(self, end: StreamEnd | None, usage: TokenUsage | None) -> Json:
        finish = None if end is None else end.finish
        return response_object(
            self._id, self._model, self._request, output=list(self._done), finish=finish, usage=usage
        )

    def _event(self, kind: str, **fields: JsonValue) -> bytes:
        body: Json = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return write_event(body, kind)
