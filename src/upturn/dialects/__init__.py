"""Wire forms of model calls: chat completions, OpenAI Responses, Anthropic Messages. Pure: no server, no client.

A dialect reads and writes requests, answers, streams and errors; ``conversation`` is what they have in common. Not
here: sending (``models``), serving (``gateway``). Start with ``dialect``, then ``chat``.
"""

from upturn.dialects.conversation import (
    CallDelta,
    Conversation,
    FinishReason,
    Image,
    Message,
    ModelAnswer,
    ModelRequest,
    OutputFormat,
    Part,
    Reasoning,
    ReasoningDelta,
    Sampling,
    StreamEnd,
    StreamEvent,
    StreamFailure,
    StreamStart,
    Text,
    TextDelta,
    TokenUsage,
    Toolbox,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolResult,
)
from upturn.dialects.dialect import Dialect, EventReader, EventWriter, Json, RequestError, json_object
from upturn.dialects.registry import DIALECTS, DialectName, dialect_of
from upturn.dialects.sse import EventParser, ServerEvent, write_event

__all__ = [
    "DIALECTS",
    "CallDelta",
    "Conversation",
    "Dialect",
    "DialectName",
    "EventParser",
    "EventReader",
    "EventWriter",
    "FinishReason",
    "Image",
    "Json",
    "Message",
    "ModelAnswer",
    "ModelRequest",
    "OutputFormat",
    "Part",
    "Reasoning",
    "ReasoningDelta",
    "RequestError",
    "Sampling",
    "ServerEvent",
    "StreamEnd",
    "StreamEvent",
    "StreamFailure",
    "StreamStart",
    "Text",
    "TextDelta",
    "TokenUsage",
    "ToolCall",
    "ToolChoice",
    "ToolDefinition",
    "ToolResult",
    "Toolbox",
    "dialect_of",
    "json_object",
    "write_event",
]
