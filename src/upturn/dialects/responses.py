"""OpenAI Responses (and Open Responses): requests, answers and errors.

Every call carries its whole conversation: ``previous_response_id``, stored conversations and references to items
are refused. Not covered in another dialect: tools that the provider runs, files, audio.
"""

from time import time
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from upturn.dialects.chat import read_image, write_image
from upturn.dialects.conversation import (
    FinishReason,
    Image,
    Message,
    ModelAnswer,
    ModelRequest,
    OutputFormat,
    Part,
    Reasoning,
    Role,
    Sampling,
    Text,
    TokenUsage,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolResult,
    join_messages,
)
from upturn.dialects.dialect import Json, RequestError, Wire, parse, refuse
from upturn.errors import ModelError
from upturn.records import JsonValue

_FIXED: Json = {
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "max_tool_calls": None,
    "background": False,
    "service_tier": "default",
    "safety_identifier": None,
    "prompt_cache_key": None,
}
"""Fields of a response that Open Responses requires, for what is not asked for in this dialect."""
_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


class _Part(Wire):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None


class Item(Wire):
    """An item of input or output, of any type."""

    type: str = "message"
    id: str | None = None
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: str | list[_Part] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | list[_Part] | None = None
    summary: list[_Part] | None = None
    encrypted_content: str | None = None


class _Tool(Wire):
    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, JsonValue] | None = None
    strict: bool | None = None


class _NamedChoice(Wire):
    type: str
    name: str = ""


class _Format(Wire):
    type: Literal["text", "json_object", "json_schema"] = "text"
    name: str = "answer"
    schema_: Annotated[dict[str, JsonValue] | None, Field(alias="schema")] = None


class _Text(Wire):
    format: _Format | None = None


class _Reasoning(Wire):
    effort: str | None = None


class Request(Wire):
    """A request. What needs stored state is refused in ``read_request``."""

    model: Annotated[str, Field(min_length=1)]
    input: str | Annotated[list[Item], Field(min_length=1)]
    instructions: str | None = None
    tools: list[_Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | _NamedChoice | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    text: _Text | None = None
    reasoning: _Reasoning | None = None
    stream: bool | None = None
    metadata: dict[str, JsonValue] | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    background: bool | None = None
    prompt: Any = None


class _Cached(Wire):
    cached_tokens: int | None = None


class _ReasoningTokens(Wire):
    reasoning_tokens: int | None = None


class _Usage(Wire):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _Cached | None = None
    output_tokens_details: _ReasoningTokens | None = None

    def counted(self) -> TokenUsage:
        """As a record."""
        cached = self.input_tokens_details and self.input_tokens_details.cached_tokens
        reasoning = self.output_tokens_details and self.output_tokens_details.reasoning_tokens
        return TokenUsage(self.input_tokens, self.output_tokens, cached or 0, reasoning or 0)


class _Incomplete(Wire):
    reason: str = ""


class _Failure(Wire):
    message: str = "the upstream reported an error"
    code: str | None = None


class Answer(Wire):
    """A response, complete or as an event shows it."""

    id: str = ""
    model: str = ""
    status: str | None = None
    output: list[Item] = Field(default_factory=list)
    incomplete_details: _Incomplete | None = None
    usage: _Usage | None = None
    error: _Failure | None = None

    def finish(self) -> FinishReason:
        """Why it ended."""
        if self.status == "incomplete":
            reason = "" if self.incomplete_details is None else self.incomplete_details.reason
            return "content_filter" if reason == "content_filter" else "length"
        return "tool_calls" if any(item.type == "function_call" for item in self.output) else "stop"

    def counted(self) -> TokenUsage:
        """Its usage."""
        return TokenUsage() if self.usage is None else self.usage.counted()


def read_request(body: bytes) -> ModelRequest:
    """Raises RequestError for what is not a request, or needs stored state or tools that the provider runs."""
    wire = parse(Request, body)
    stateless = "send the whole conversation as input, it is not stored"
    refuse({name: getattr(wire, name) for name in ("previous_response_id", "conversation")}, stateless)
    refuse({"background": wire.background, "prompt": wire.prompt}, "send an ordinary request")
    messages = [Message("system", (Text(wire.instructions),))] if wire.instructions else []
    if isinstance(wire.input, str):
        messages.append(Message("user", (Text(wire.input),)))
    else:
        messages += join_messages([_read_item(item, f"input.{index}") for index, item in enumerate(wire.input)])
    return ModelRequest(
        wire.model,
        tuple(messages),
        tuple(_read_tool(tool, f"tools.{index}") for index, tool in enumerate(wire.tools or ())),
        _read_choice(wire),
        Sampling(wire.max_output_tokens, wire.temperature, wire.top_p),
        _read_format(wire.text),
        (wire.reasoning and wire.reasoning.effort) or "",
        bool(wire.stream),
        metadata=wire.metadata or {},
    )


def _read_item(item: Item, field: str) -> Message:
    match item.type:
        case "message" if item.role is not None:
            role: Role = "system" if item.role == "developer" else item.role
            return Message(role, tuple(_read_content(item.content, f"{field}.content")))
        case "function_call_output" if item.call_id is not None:
            parts = tuple(_read_content(item.output, f"{field}.output"))
            return Message("tool", (ToolResult(item.call_id, parts),))
        case "function_call" | "reasoning":
            return Message("assistant", tuple(read_output(item, field)))
    raise RequestError(
        f"{field} is of type {item.type!r}; message (with a role), function_call, function_call_output and "
        "reasoning are supported",
        code="unsupported",
        field=field,
    )


def read_output(item: Item, field: str) -> list[Part]:
    """The parts of an item that a model wrote."""
    match item.type:
        case "message":
            return [*_read_content(item.content, f"{field}.content")]
        case "function_call" if item.call_id is not None and item.name is not None:
            return [ToolCall(item.call_id, item.name, item.arguments or "")]
        case "reasoning":
            lines = [*(item.summary or ()), *(item.content if isinstance(item.content, list) else ())]
            text = "\n\n".join(line.text for line in lines if line.text)
            return [Reasoning(text, item.encrypted_content or "")] if text or item.encrypted_content else []
    raise RequestError(
        f"{field} is of type {item.type!r}, which has no counterpart", code="unsupported", field=field
    )


def _read_content(content: str | list[_Part] | None, field: str) -> list[Text | Image]:
    if content is None or isinstance(content, str):
        return [Text(content)] if content else []
    parts: list[Text | Image] = []
    for index, part in enumerate(content):
        if part.type in _TEXTS and part.text is not None:
            parts.append(Text(part.text))
        elif part.type == "refusal" and part.refusal is not None:
            parts.append(Text(part.refusal))
        elif part.type == "input_image" and part.image_url is not None:
            parts.append(read_image(part.image_url))
        else:
            raise RequestError(
                f"{field}.{index} is of type {part.type!r}; text and images by value or URL are supported",
                code="unsupported",
                field=f"{field}.{index}",
            )
    return parts


def _read_tool(tool: _Tool, field: str) -> ToolDefinition:
    if tool.type != "function":
        raise RequestError(
            f"{field} is of type {tool.type!r}, which the provider runs; routes allow function tools only",
            code="unsupported",
            field=field,
        )
    return ToolDefinition(tool.name, tool.description or "", tool.parameters or {}, bool(tool.strict))


def _read_choice(wire: Request) -> ToolChoice:
    is_parallel = wire.parallel_tool_calls is not False
    if isinstance(wire.tool_choice, _NamedChoice):
        return ToolChoice("named", wire.tool_choice.name, is_parallel)
    return ToolChoice(wire.tool_choice or "auto", "", is_parallel)


def _read_format(text: _Text | None) -> OutputFormat:
    wire = text.format if text else None
    if wire is None or wire.type == "text":
        return OutputFormat()
    if wire.type == "json_object":
        return OutputFormat("json")
    if wire.schema_ is None:
        raise RequestError("text.format.schema is missing: json_schema needs one", field="text.format.schema")
    return OutputFormat("schema", wire.name, wire.schema_)


def write_request(request: ModelRequest) -> Json:
    """The request with the fields that it sets; raises RequestError for what the dialect cannot say."""
    sampling, choice = request.sampling, request.tool_choice
    refuse(
        {
            "stop": sampling.stop,
            "seed": sampling.seed is not None,
            "top_k": sampling.top_k,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
        },
        "an upstream that speaks Responses has no such parameter",
    )
    items = [item for message in request.messages for item in _write_message(message)]
    body: Json = {"model": request.model, "input": items, "store": False}
    named: dict[str, JsonValue | None] = {
        "max_output_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "reasoning": {"effort": request.effort} if request.effort else None,
        "metadata": dict(request.metadata) or None,
        "stream": request.is_streamed or None,
    }
    body |= {name: value for name, value in named.items() if value is not None}
    if request.tools:
        body["tools"] = [write_tool(tool) for tool in request.tools]
        body["tool_choice"] = {"type": "function", "name": choice.name} if choice.kind == "named" else choice.kind
        body["parallel_tool_calls"] = choice.is_parallel
    if request.output.kind != "text":
        body["text"] = {"format": _write_format(request.output)}
    return body


def _write_format(output: OutputFormat) -> Json:
    match output.kind:
        case "text":
            return {"type": "text"}
        case "json":
            return {"type": "json_object"}
        case "schema":
            schema = dict(output.schema)
            return {"type": "json_schema", "name": output.name or "answer", "schema": schema, "strict": True}


def _write_message(message: Message) -> list[JsonValue]:
    if message.role == "tool":
        return [
            {"type": "function_call_output", "call_id": part.call_id, "output": _write_output(part.parts)}
            for part in message.parts
            if isinstance(part, ToolResult)
        ]
    if message.lines:
        return list(message.lines)
    if message.role == "assistant":
        return write_items(message.parts, "")
    content = [_write_input(part) for part in message.parts if isinstance(part, Text | Image)]
    return [{"type": "message", "role": message.role, "content": content}]


def _write_input(part: Text | Image) -> JsonValue:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "image_url": write_image(part), "detail": "auto"}


def _write_output(parts: tuple[Text | Image, ...]) -> JsonValue:
    if all(isinstance(part, Text) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, Text))
    return [_write_input(part) for part in parts]


def write_items(parts: tuple[Part, ...], answer_id: str) -> list[JsonValue]:
    """The items of what a model wrote; ``answer_id`` makes their ids, empty = items without ids."""
    return [write_item(part, f"{answer_id}_{index}" if answer_id else "") for index, part in enumerate(parts)]


def write_item(part: Part, item_id: str, *, status: str = "completed") -> Json:
    """The item of a text, a thought or a call; raises RequestError for an image or a result."""
    head: Json = {"id": item_id} if item_id else {}
    match part:
        case Text():
            content: list[JsonValue] = [write_text(part.text)] if part.text or status == "completed" else []
            return {"type": "message", **head, "role": "assistant", "status": status, "content": content}
        case ToolCall():
            call: Json = {"call_id": part.id, "name": part.name, "arguments": part.arguments, "status": status}
            return {"type": "function_call", **head, **call}
        case Reasoning():
            summary: list[JsonValue] = [{"type": "summary_text", "text": part.text}] if part.text else []
            encrypted: Json = {"encrypted_content": part.signature} if part.signature else {}
            return {"type": "reasoning", **head, "summary": summary, **encrypted}
        case _:
            raise RequestError(f"an assistant's message cannot hold {type(part).__name__} in this dialect")


def write_text(text: str) -> Json:
    """A part of an answer's message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def write_tool(tool: ToolDefinition) -> Json:
    """The definition of a tool."""
    schema: Json = dict(tool.parameters) or {"type": "object", "properties": {}}
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description or None,
        "parameters": schema,
        "strict": tool.is_strict,
    }


def read_answer(body: bytes) -> ModelAnswer:
    """Raises ModelError for what is not an answer, and for a failed one."""
    try:
        wire = Answer.model_validate_json(body)
        if wire.status in (None, "failed", "cancelled"):
            message = "it has no status" if wire.error is None else wire.error.message
            raise ModelError(f"the response failed: {message}")
        read = [read_output(item, f"output.{index}") for index, item in enumerate(wire.output)]
    except (ValidationError, RequestError) as exc:
        raise ModelError(f"not a response: {body[:300]!r}") from exc
    # without content, only the provider could look up what an item's id stands for
    items = [item for item, parts in zip(wire.output, read, strict=True) if parts]
    lines = tuple(item.model_dump(mode="json", exclude_none=True) for item in items)
    parts = tuple(part for item in read for part in item)
    return ModelAnswer(wire.id, wire.model, parts, wire.finish(), wire.counted(), lines)


def write_answer(answer: ModelAnswer, request: ModelRequest) -> Json:
    """As the client expects it."""
    output = write_items(answer.parts, answer.id)
    return response_object(
        answer.id, answer.model, request, output=output, finish=answer.finish, usage=answer.usage
    )


def response_object(
    answer_id: str,
    model: str,
    request: ModelRequest,
    *,
    output: list[JsonValue],
    finish: FinishReason | None,
    usage: TokenUsage | None,
) -> Json:
    """A response with all fields that Open Responses requires; ``finish`` None = in progress."""
    now = int(time())
    is_cut = finish in ("length", "content_filter")
    reason = "max_output_tokens" if finish == "length" else "content_filter"
    instructions = [
        part.text
        for message in request.messages[:1]
        if message.role == "system"
        for part in message.parts
        if isinstance(part, Text)
    ]
    choice = request.tool_choice
    named: Json = {"type": "function", "name": choice.name}
    return {
        "id": answer_id,
        "object": "response",
        "created_at": now,
        "completed_at": now if finish is not None and not is_cut else None,
        "status": "in_progress" if finish is None else "incomplete" if is_cut else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if is_cut else None,
        "instructions": "".join(instructions) or None,
        "max_output_tokens": request.sampling.max_tokens,
        "model": model,
        "output": output,
        "parallel_tool_calls": choice.is_parallel,
        "previous_response_id": None,
        "reasoning": {"effort": request.effort or None, "summary": None},
        "store": False,
        "temperature": 1.0 if request.sampling.temperature is None else request.sampling.temperature,
        "text": {"format": _write_format(request.output)},
        "tool_choice": named if choice.kind == "named" else choice.kind,
        "tools": [write_tool(tool) for tool in request.tools],
        "top_p": 1.0 if request.sampling.top_p is None else request.sampling.top_p,
        "truncation": "disabled",
        "usage": None if usage is None else write_usage(usage),
        "metadata": dict(request.metadata),
        **_FIXED,
    }


def write_usage(usage: TokenUsage) -> Json:
    """The usage field."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached_input},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }
