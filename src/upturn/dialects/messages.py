"""Anthropic Messages: requests, answers and errors.

Usage: ``input_tokens`` does not include cached tokens here, elsewhere it does. Not covered in another dialect:
documents, tools that the provider runs, cache marks (dropped), stored files.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from upturn.dialects.conversation import (
    FinishReason,
    Image,
    Message,
    ModelAnswer,
    ModelRequest,
    OutputFormat,
    Part,
    Reasoning,
    Sampling,
    Text,
    TokenUsage,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolResult,
)
from upturn.dialects.dialect import Json, RequestError, StopText, Wire, arguments_schema, json_object, parse, refuse
from upturn.errors import ModelError
from upturn.records import JsonValue

DEFAULT_MAX_TOKENS = 4096
"""The dialect requires a limit; this is sent where a request of another dialect has none."""
FINISH: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
STOP_REASONS: Mapping[FinishReason, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_EFFORTS: Mapping[str, int] = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 24_576}
"""Budgets of thinking by the efforts of the other dialects."""
UNSIGNED = "unsigned"
"""Signature of thoughts that nobody has signed. Some clients send a thought without one back as the user's text."""
ERRORS: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}
"""Type of an error by HTTP status."""


_NO_TOKENS = TokenUsage()


class _Source(Wire):
    type: Literal["base64", "url"]
    media_type: str = ""
    data: str = ""
    url: str = ""


class Block(Wire):
    """A block of content, of any type; the fields that its type needs are checked where it is read."""

    type: str
    text: str | None = None
    source: Any = None
    id: str | None = None
    name: str | None = None
    input: dict[str, JsonValue] | None = None
    tool_use_id: str | None = None
    content: "str | list[Block] | None" = None
    is_error: bool | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class _Message(Wire):
    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class _Tool(Wire):
    name: str
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, JsonValue] | None = None
    strict: bool | None = None


class _Choice(Wire):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Thinking(Wire):
    type: str
    budget_tokens: int | None = None


class _Format(Wire):
    type: Literal["json_schema"]
    schema_: Annotated[dict[str, JsonValue], Field(alias="schema")]


class _OutputConfig(Wire):
    format: _Format | None = None
    effort: str | None = None


class Request(Wire):
    """A request."""

    model: Annotated[str, Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1)]
    messages: Annotated[list[_Message], Field(min_length=1)]
    system: str | list[Block] | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    stop_sequences: list[StopText] | None = None
    stream: bool | None = None
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    metadata: dict[str, JsonValue] | None = None


class _OutputDetails(Wire):
    thinking_tokens: int | None = None


class _CacheCreation(Wire):
    ephemeral_1h_input_tokens: int | None = None


class Usage(Wire):
    """The usage of an answer or of an event; counts that it lacks are None."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _CacheCreation | None = None
    output_tokens_details: _OutputDetails | None = None

    def counted(self, earlier: TokenUsage = _NO_TOKENS) -> TokenUsage:
        """As a record; counts that are missing here are those of ``earlier``."""
        details = self.output_tokens_details
        thoughts = (details and details.thinking_tokens) or 0
        if self.input_tokens is None:
            return replace(earlier, output=self.output_tokens or earlier.output, reasoning=thoughts)
        cached, written = self.cache_read_input_tokens, self.cache_creation_input_tokens
        cached = earlier.cached_input if cached is None else cached
        written = earlier.cache_write if written is None else written
        for_an_hour = earlier.cache_write_1h
        if self.cache_creation is not None:
            for_an_hour = self.cache_creation.ephemeral_1h_input_tokens or 0
        total = self.input_tokens + cached + written
        return TokenUsage(total, self.output_tokens or 0, cached, thoughts, written, for_an_hour)


class _Answer(Wire):
    id: str = ""
    type: Literal["message"]
    model: str = ""
    content: list[Block]
    stop_reason: str | None = None
    usage: Usage = Field(default_factory=Usage)


def read_request(body: bytes) -> ModelRequest:
    """Raises RequestError for what is not a request, and for tools that the provider runs."""
    wire = parse(Request, body)
    system = _read_text(wire.system, "system")
    messages = [Message("system", system)] if system else []
    for index, message in enumerate(wire.messages):
        messages += _read_message(message, f"messages.{index}")
    return ModelRequest(
        wire.model,
        tuple(messages),
        tuple(_read_tool(tool, f"tools.{index}") for index, tool in enumerate(wire.tools or ())),
        _read_choice(wire.tool_choice),
        Sampling(
            wire.max_tokens, wire.temperature, wire.top_p, wire.top_k or None, tuple(wire.stop_sequences or ())
        ),
        output=_read_format(wire.output_config),
        effort=(wire.output_config and wire.output_config.effort) or _read_effort(wire.thinking),
        is_streamed=bool(wire.stream),
        metadata=wire.metadata or {},
    )


def _read_text(content: str | list[Block] | None, field: str) -> tuple[Text, ...]:
    if content is None or isinstance(content, str):
        return (Text(content),) if content else ()
    for index, block in enumerate(content):
        if block.type != "text" or block.text is None:
            raise _unsupported(block.type, f"{field}.{index}", "text")
    return tuple(Text(block.text) for block in content if block.text)


def _read_message(message: _Message, field: str) -> list[Message]:
    """Results come before everything else of a user's message, as a message of their own."""
    if isinstance(message.content, str):
        return [Message(message.role, (Text(message.content),))]
    parts = [read_block(block, f"{field}.content.{index}") for index, block in enumerate(message.content)]
    results = tuple(part for part in parts if isinstance(part, ToolResult))
    others = tuple(part for part in parts if not isinstance(part, ToolResult))
    messages = [Message("tool", results)] if results else []
    return [*messages, Message(message.role, others)] if others or not results else messages


def read_block(block: Block, field: str) -> Part:
    """The part that a block holds; raises RequestError for other types and for missing fields."""
    match block.type:
        case "text" if block.text is not None:
            return Text(block.text)
        case "thinking" if block.thinking is not None:
            return Reasoning(block.thinking, "" if block.signature == UNSIGNED else block.signature or "")
        case "redacted_thinking" if block.data is not None:
            return Reasoning("", block.data, is_redacted=True)
        case "tool_use" if block.id is not None and block.name is not None:
            return ToolCall(block.id, block.name, _json(block.input or {}))
        case "tool_result" if block.tool_use_id is not None:
            parts = _read_result(block.content, f"{field}.content")
            return ToolResult(block.tool_use_id, parts, bool(block.is_error))
        case "image":
            return _read_image(block, field)
    raise _unsupported(block.type, field, "text, image, tool_use, tool_result and thinking, with their fields,")


def _read_result(content: str | list[Block] | None, field: str) -> tuple[Text | Image, ...]:
    if content is None or isinstance(content, str):
        return (Text(content),) if content else ()
    parts = [read_block(block, f"{field}.{index}") for index, block in enumerate(content)]
    return tuple(part for part in parts if isinstance(part, Text | Image))


def _read_image(block: Block, field: str) -> Image:
    try:
        source = _Source.model_validate(block.source)
    except ValidationError as exc:
        raise _unsupported("image", f"{field}.source", "sources of type base64 and url") from exc
    return Image(source.media_type, source.data, source.url)


def _read_tool(tool: _Tool, field: str) -> ToolDefinition:
    if tool.input_schema is None:
        raise RequestError(
            f"{field} ({tool.type or tool.name!r}) is run by the provider, which routes do not allow; give a tool "
            "with an input_schema",
            code="unsupported",
            field=field,
        )
    return ToolDefinition(tool.name, tool.description or "", tool.input_schema, bool(tool.strict))


def _read_choice(choice: _Choice | None) -> ToolChoice:
    if choice is None:
        return ToolChoice()
    is_parallel = not choice.disable_parallel_tool_use
    match choice.type:
        case "any":
            return ToolChoice("required", "", is_parallel)
        case "tool":
            return ToolChoice("named", choice.name or "", is_parallel)
        case "auto" | "none":
            return ToolChoice(choice.type, "", is_parallel)


def _read_format(config: _OutputConfig | None) -> OutputFormat:
    if config is None or config.format is None:
        return OutputFormat()
    return OutputFormat("schema", "answer", config.format.schema_)


def _read_effort(thinking: _Thinking | None) -> str:
    if thinking is None or thinking.type == "disabled":
        return ""
    budget = thinking.budget_tokens or _EFFORTS["medium"]
    return next((effort for effort, limit in _EFFORTS.items() if budget <= limit), "high")


def write_request(request: ModelRequest) -> Json:
    """The request with the fields that it sets; raises RequestError for what the dialect cannot say."""
    if request.output.kind == "json":
        raise RequestError(
            "the answer's format json_object cannot be asked for in this dialect; use json_schema, or a tool",
            code="unsupported",
            field="response_format",
        )
    sampling = request.sampling
    refuse(
        {
            "seed": sampling.seed is not None,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
        },
        "an upstream that speaks Messages has no such parameter",
    )
    limit = sampling.max_tokens or DEFAULT_MAX_TOKENS
    body: Json = {"model": request.model, "max_tokens": limit, "messages": _write_messages(request)}
    system = "\n\n".join(
        part.text
        for message in request.messages
        if message.role == "system"
        for part in message.parts
        if isinstance(part, Text)
    )
    named: dict[str, JsonValue | None] = {
        "system": system or None,
        "temperature": None if sampling.temperature is None else min(sampling.temperature, 1.0),
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "stop_sequences": list(sampling.stop) or None,
        "stream": request.is_streamed or None,
    }
    body |= {name: value for name, value in named.items() if value is not None}
    if request.output.kind == "schema":
        body["output_config"] = {"format": {"type": "json_schema", "schema": dict(request.output.schema)}}
    if budget := _thinking_budget(request, limit):
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}
        body.pop("temperature", None)  # the dialect refuses it beside thoughts
    if request.tools:
        body["tools"] = [_write_tool(tool) for tool in request.tools]
        body["tool_choice"] = _write_choice(request.tool_choice)
    return body


def _thinking_budget(request: ModelRequest, limit: int) -> int:
    """The budget of the request's effort; 0 = no thoughts, which the dialect refuses in some requests.

    A call must be chosen freely, and an answer whose calls have just got their results must begin with its signed
    thought, which clients of other dialects cannot give back.
    """
    budget = min(_EFFORTS.get(request.effort, 0), limit - 1)
    if budget < _EFFORTS["minimal"] or request.tool_choice.kind in ("required", "named"):
        return 0
    answers = [message.parts for message in request.messages if message.role == "assistant"]
    if not answers or request.messages[-1].role != "tool":
        return budget
    is_signed = any(isinstance(part, Reasoning) and part.signature for part in answers[-1])
    return budget if is_signed else 0


def _write_messages(request: ModelRequest) -> list[JsonValue]:
    """Neighbouring messages of one role are one message: the dialect alternates. Unsigned thoughts are left out."""
    lines: list[tuple[str, list[JsonValue]]] = []
    for message in request.messages:
        if message.role == "system":
            continue
        role = "user" if message.role == "tool" else message.role
        parts = [part for part in message.parts if not isinstance(part, Reasoning) or part.signature]
        blocks = list(message.lines) or [write_part(part) for part in parts]
        if not blocks:
            continue
        if lines and lines[-1][0] == role:
            lines[-1][1].extend(blocks)
        else:
            lines.append((role, blocks))
    return [{"role": role, "content": blocks} for role, blocks in lines]


def write_part(part: Part) -> JsonValue:
    """The block of a part. Arguments that are no JSON object are written as the text of one field."""
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Image():
            if part.url:
                return {"type": "image", "source": {"type": "url", "url": part.url}}
            source: Json = {"type": "base64", "media_type": part.media_type or "image/png", "data": part.data}
            return {"type": "image", "source": source}
        case Reasoning():
            if part.is_redacted:
                return {"type": "redacted_thinking", "data": part.signature}
            return {"type": "thinking", "thinking": part.text, "signature": part.signature or UNSIGNED}
        case ToolCall():
            arguments = json_object(part.arguments)
            written = {"arguments": part.arguments} if arguments is None else arguments
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": dict(written)}
        case ToolResult():
            content: list[JsonValue] = [write_part(inner) for inner in part.parts]
            error: Json = {"is_error": True} if part.is_error else {}
            return {"type": "tool_result", "tool_use_id": part.call_id, "content": content, **error}


def _write_tool(tool: ToolDefinition) -> Json:
    line: Json = {"name": tool.name, "input_schema": arguments_schema(tool)}
    return line | ({"description": tool.description} if tool.description else {})


def _write_choice(choice: ToolChoice) -> Json:
    kind = {"auto": "auto", "none": "none", "required": "any", "named": "tool"}[choice.kind]
    line: Json = {"type": kind}
    if choice.kind == "named":
        line["name"] = choice.name
    if not choice.is_parallel and choice.kind != "none":
        line["disable_parallel_tool_use"] = True
    return line


def read_answer(body: bytes) -> ModelAnswer:
    """Raises ModelError for what is not an answer."""
    try:
        wire = _Answer.model_validate_json(body)
        parts = tuple(read_block(block, f"content.{index}") for index, block in enumerate(wire.content))
    except (ValidationError, RequestError) as exc:
        raise ModelError(f"not an Anthropic message: {body[:300]!r}") from exc
    blocks = tuple(block.model_dump(mode="json", exclude_none=True) for block in wire.content)
    finish = FINISH.get(wire.stop_reason or "", "stop")
    return ModelAnswer(wire.id, wire.model, parts, finish, wire.usage.counted(), blocks)


def write_answer(answer: ModelAnswer, request: ModelRequest) -> Json:  # noqa: ARG001  as in the protocol
    """As the client expects it; thoughts without a signature get ``UNSIGNED``."""
    return {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [write_part(part) for part in answer.parts],
        "stop_reason": STOP_REASONS[answer.finish],
        "stop_sequence": None,
        "usage": write_usage(answer.usage),
    }


def write_usage(usage: TokenUsage) -> Json:
    """The usage field."""
    return {
        "input_tokens": usage.input - usage.cached_input - usage.cache_write,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cached_input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write - usage.cache_write_1h,
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }


def write_error(error: RequestError) -> Json:
    """As Anthropic writes it."""
    return {"type": "error", "error": {"type": error_type(error.status), "message": str(error)}}


def error_type(status: int) -> str:
    """The name of the error with this HTTP status."""
    return ERRORS.get(status, "invalid_request_error" if status < 500 else "api_error")


def _unsupported(kind: str, field: str, allowed: str) -> RequestError:
    return RequestError(f"{field} is of type {kind!r}; {allowed} is supported", code="unsupported", field=field)


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
