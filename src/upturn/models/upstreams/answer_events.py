"""An answer that is known as a whole, as the events of a stream."""

import itertools

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
