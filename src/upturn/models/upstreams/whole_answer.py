"""An answer that is known as a whole before its first byte, in the client's dialect."""

import itertools
import json
from collections.abc import AsyncIterator

from upturn.dialects import (
    CallDelta,
    Image,
    ModelAnswer,
    Reasoning,
    ReasoningDelta,
    StreamEnd,
    StreamEvent,
    StreamStart,
    Text,
    TextDelta,
    TokenUsage,
    ToolCall,
    ToolResult,
)
from upturn.models.upstreams.upstream import CallOutcome, Chunk, UpstreamCall


class WholeExchange:
    """The exchange of an answer that is known."""

    def __init__(self, call: UpstreamCall, answer: ModelAnswer, outcome: CallOutcome) -> None:
        self._call = call
        self._answer = answer
        self.outcome = outcome

    async def chunks(self) -> AsyncIterator[Chunk]:
        """The answer, or a stream with its events."""
        request, dialect = self._call.request, self._call.dialect
        if not request.is_streamed:
            body = json.dumps(dialect.write_answer(self._answer, request), ensure_ascii=False)
            yield Chunk(body.encode("utf-8", "replace"), is_end=True)
            return
        writer = dialect.writer(request)
        *events, end = answer_events(self._answer)
        yield Chunk(b"".join(writer.write(event) for event in events), is_end=False)
        yield Chunk(writer.write(end), is_end=True)


def answer_events(answer: ModelAnswer) -> list[StreamEvent]:
    """The events of a stream with this answer."""
    events: list[StreamEvent] = [StreamStart(answer.id, answer.model, TokenUsage(answer.usage.input))]
    calls = itertools.count()
    for part in answer.parts:
        match part:
            case Text():
                events.append(TextDelta(part.text))
            case Reasoning():
                events.append(ReasoningDelta(part.text, part.signature, part.is_redacted))
            case ToolCall():
                events.append(CallDelta(next(calls), part.id, part.name, part.arguments))
            case Image() | ToolResult():
                pass
    return [*events, StreamEnd(answer.finish, answer.usage)]
