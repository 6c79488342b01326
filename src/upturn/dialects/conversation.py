"""A model call in no dialect: what a request asks for, what an answer says, and the parts of a stream.

Only what at least two dialects can say has a place here. Requests and answers keep the text of tool arguments as it
was written: a harness that serialises it anew would otherwise change what the model reads.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from upturn.records import JsonValue, record

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]
"""``stop``: the model ended its answer, also by a stop string."""


@record
class Text:
    """Plain text."""

    text: str


@record
class Image:
    """An image by value or by address."""

    media_type: str = ""
    """Such as ``image/png``; empty = unknown, for an address."""
    data: str = ""
    """Base64; empty = by address."""
    url: str = ""
    """``https://…``; empty = by value. Whoever serves the model would fetch it."""


@record
class Reasoning:
    """A thought. Only the provider that wrote it can read its signature."""

    text: str = ""
    signature: str = ""
    """Opaque; it must go back unchanged. Empty = unsigned."""
    is_redacted: bool = False
    """True = the text is hidden and ``signature`` holds it in encrypted form."""


@record
class ToolCall:
    """A call that the model wrote."""

    id: str
    name: str
    arguments: str
    """JSON text of an object, exactly as written; not necessarily valid."""


@record
class ToolResult:
    """What a call returned."""

    call_id: str
    parts: "tuple[Text | Image, ...]"
    is_error: bool = False


Part: TypeAlias = Text | Image | Reasoning | ToolCall | ToolResult


@record
class Message:
    """One message of a conversation; ``tool`` messages hold results."""

    role: Role
    parts: tuple[Part, ...]
    lines: tuple[JsonValue, ...] = field(default=(), compare=False)
    """For ``assistant``: ``ModelAnswer.lines`` of an earlier answer in the dialect that the request is written in;
    they are written in place of the parts. Empty = the parts are written."""


@record
class Conversation:
    """Messages in their order."""

    messages: tuple[Message, ...]


@record
class ToolDefinition:
    """A tool that the model may call."""

    name: str
    description: str = ""
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)
    """JSON Schema of an object."""
    is_strict: bool = False
    """True = arguments must match the schema."""


@record
class Toolbox:
    """The tools of a request."""

    tools: tuple[ToolDefinition, ...]


@record
class ToolChoice:
    """Whether the model must call a tool."""

    kind: Literal["auto", "none", "required", "named"] = "auto"
    name: str = ""
    """For ``named``."""
    is_parallel: bool = True
    """False = at most one call an answer."""


@record
class Sampling:
    """How tokens are drawn; None = the upstream's default."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


@record
class OutputFormat:
    """The form of the answer's text."""

    kind: Literal["text", "json", "schema"] = "text"
    name: str = ""
    schema: Mapping[str, JsonValue] = field(default_factory=dict)
    """For ``schema``: JSON Schema."""


@record
class ModelRequest:
    """One call of a model."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    sampling: Sampling = Sampling()
    output: OutputFormat = OutputFormat()
    effort: str = ""
    """How much to think, in the words of the provider, such as ``low``; empty = its default."""
    is_streamed: bool = False
    has_stream_usage: bool = True
    """Whether a stream ends with the usage; only chat completions leave the choice."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    """The client's, by name."""


@record
class TokenUsage:
    """Tokens of one call."""

    input: int = 0
    """All of the prompt, cached ones included."""
    output: int = 0
    """All that was written, reasoning included."""
    cached_input: int = 0
    """Of ``input``: read from the provider's cache."""
    reasoning: int = 0
    """Of ``output``."""
    cache_write: int = 0
    """Of ``input``: written to the provider's cache."""
    cache_write_1h: int = 0
    """Of ``cache_write``: kept for an hour."""


@record
class ModelAnswer:
    """A complete answer."""

    id: str
    model: str
    parts: tuple[Part, ...]
    """Texts, thoughts and calls in the order in which they were written."""
    finish: FinishReason
    usage: TokenUsage = TokenUsage()
    lines: tuple[JsonValue, ...] = field(default=(), compare=False)
    """The answer as later requests in its dialect repeat it: a message, items or blocks with all their fields, such
    as signatures of thoughts. Empty = it was not read from a server."""


@record
class TextDelta:
    """More of the answer's text."""

    text: str


@record
class ReasoningDelta:
    """More of a thought, or its signature."""

    text: str = ""
    signature: str = ""
    is_redacted: bool = False


@record
class CallDelta:
    """A new call, or more of the arguments of one."""

    index: int
    """Number of the call in the answer, from 0."""
    id: str = ""
    """Empty = more of an earlier one."""
    name: str = ""
    arguments: str = ""


@record
class StreamStart:
    """The first event."""

    id: str
    model: str
    usage: TokenUsage = TokenUsage()
    """As far as it is known at the start."""


@record
class StreamEnd:
    """The last event of a complete answer."""

    finish: FinishReason
    usage: TokenUsage | None = None
    """None = not reported."""


@record
class StreamFailure:
    """The last event of an answer that broke off."""

    message: str
    code: str = "upstream_error"


StreamEvent: TypeAlias = StreamStart | TextDelta | ReasoningDelta | CallDelta | StreamEnd | StreamFailure


def join_messages(messages: Iterable[Message]) -> list[Message]:
    """Neighbouring messages of the assistant as one, and neighbouring results as one."""
    joined: list[Message] = []
    for message in messages:
        if joined and joined[-1].role == message.role and message.role in ("assistant", "tool"):
            joined[-1] = Message(message.role, (*joined[-1].parts, *message.parts))
        else:
            joined.append(message)
    return joined
