"""Chat completions, the dialect of OpenAI-compatible servers: requests, answers and errors.

Thoughts are in ``reasoning_content`` (DeepSeek, vLLM, SGLang) or ``reasoning`` (OpenRouter, later vLLM); both are
read, the first is written. Not covered: several choices (``n`` > 1), audio, log-probs in another dialect, the
``functions`` that ``tools`` replaced.
"""

from collections.abc import Mapping
from time import time
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
    join_messages,
)
from upturn.dialects.dialect import Json, RequestError, StopText, Wire, arguments_schema, parse, refuse
from upturn.dialects.openai import (
    CachedTokens,
    ReasoningTokens,
    plain_text,
    read_choice,
    read_content,
    read_image,
    read_schema,
    token_usage,
    write_image,
)
from upturn.errors import ModelError
from upturn.records import JsonValue

FINISH: Mapping[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


class _ImageUrl(Wire):
    url: str


class _Part(Wire):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: _ImageUrl | None = None


class _Function(Wire):
    name: str
    arguments: str = ""


class _Call(Wire):
    id: str
    type: Literal["function"] = "function"
    function: _Function


class _Message(Wire):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Definition(Wire):
    name: str
    description: str | None = None
    parameters: dict[str, JsonValue] | None = None
    strict: bool | None = None


class _Tool(Wire):
    type: Literal["function"]
    function: _Definition


class _Named(Wire):
    name: str


class _NamedChoice(Wire):
    type: Literal["function"]
    function: _Named


class _Schema(Wire):
    name: str = "answer"
    schema_: Annotated[dict[str, JsonValue] | None, Field(alias="schema")] = None


class _Format(Wire):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _Schema | None = None


class _StreamOptions(Wire):
    include_usage: bool | None = None


class Request(Wire):
    """A request. What has no counterpart here is refused in ``read_request``."""

    model: Annotated[str, Field(min_length=1)]
    messages: Annotated[list[_Message], Field(min_length=1)]
    tools: list[_Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | _NamedChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: int | None = None
    stop: StopText | list[StopText] | None = None
    seed: int | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    response_format: _Format | None = None
    reasoning_effort: str | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    metadata: dict[str, JsonValue] | None = None
    functions: list[Any] | None = None
    modalities: list[str] | None = None


class Usage(Wire):
    """The usage of an answer or of a stream's last chunk."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: CachedTokens | None = None
    completion_tokens_details: ReasoningTokens | None = None

    def counted(self) -> TokenUsage:
        """As a record."""
        details = self.prompt_tokens_details, self.completion_tokens_details
        return token_usage(self.prompt_tokens, self.completion_tokens, *details)


class _AnswerMessage(_Message):
    role: Literal["assistant"] = "assistant"


class _Choice(Wire):
    message: _AnswerMessage
    finish_reason: str | None = None


class _Answer(Wire):
    id: str = ""
    model: str = ""
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: Usage | None = None


def read_request(body: bytes) -> ModelRequest:
    """Raises RequestError for what is not a request, or asks for several choices, audio or ``functions``."""
    wire = parse(Request, body)
    refuse({"functions": wire.functions}, "use tools")
    refuse({"n": (wire.n or 1) > 1}, "ask for one choice a call")
    refuse({"modalities": set(wire.modalities or ()) - {"text"}}, "only text is answered")
    stop = [wire.stop] if isinstance(wire.stop, str) else wire.stop or []
    options = wire.stream_options
    return ModelRequest(
        wire.model,
        tuple(join_messages(_read_message(message, index) for index, message in enumerate(wire.messages))),
        tuple(_read_tool(tool.function) for tool in wire.tools or ()),
        _read_choice(wire),
        Sampling(
            wire.max_completion_tokens or wire.max_tokens,
            wire.temperature,
            wire.top_p,
            wire.top_k,
            tuple(stop),
            wire.seed,
            wire.presence_penalty,
            wire.frequency_penalty,
        ),
        _read_format(wire.response_format),
        wire.reasoning_effort or "",
        bool(wire.stream),
        bool(options and options.include_usage),
        wire.metadata or {},
    )


def _read_message(message: _Message, index: int) -> Message:
    if message.role == "tool":
        if message.tool_call_id is None:
            field = f"messages.{index}.tool_call_id"
            raise RequestError(f"{field} is missing: it names the call that this is the result of", field=field)
        parts = tuple(
            part
            for part in read_content(message.content, f"messages.{index}.content", _read_part)
            if isinstance(part, Text | Image)
        )
        return Message("tool", (ToolResult(message.tool_call_id, parts),))
    thought = message.reasoning_content or message.reasoning
    calls = [ToolCall(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    content = read_content(message.content, f"messages.{index}.content", _read_part)
    role = "system" if message.role == "developer" else message.role
    return Message(role, (*([Reasoning(thought)] if thought else []), *content, *calls))


def _read_part(part: _Part) -> Text | Image | None:
    if part.type == "image_url" and part.image_url is not None:
        return read_image(part.image_url.url)
    text = {"text": part.text, "refusal": part.refusal}.get(part.type)
    return None if text is None else Text(text)


def _read_tool(function: _Definition) -> ToolDefinition:
    return ToolDefinition(
        function.name, function.description or "", function.parameters or {}, bool(function.strict)
    )


def _read_choice(wire: Request) -> ToolChoice:
    choice, parallel = wire.tool_choice, wire.parallel_tool_calls
    if isinstance(choice, _NamedChoice):
        return read_choice(None, choice.function.name, parallel=parallel)
    return read_choice(choice, None, parallel=parallel)


def _read_format(wire: _Format | None) -> OutputFormat:
    if wire is None or wire.type == "text":
        return OutputFormat()
    if wire.type == "json_object":
        return OutputFormat("json")
    declared = wire.json_schema or _Schema()
    return read_schema(declared.name, declared.schema_, "response_format.json_schema")


def write_request(request: ModelRequest) -> Json:
    """The request with the fields that it sets; raises RequestError for redacted thoughts."""
    sampling, choice = request.sampling, request.tool_choice
    body: Json = {
        "model": request.model,
        "messages": [line for message in request.messages for line in _write_message(message)],
    }
    named: dict[str, JsonValue | None] = {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "stop": list(sampling.stop) or None,
        "seed": sampling.seed,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "reasoning_effort": request.effort or None,
        "metadata": dict(request.metadata) or None,
    }
    body |= {name: value for name, value in named.items() if value is not None}
    if request.tools:
        body["tools"] = [{"type": "function", "function": _write_tool(tool)} for tool in request.tools]
        if choice.kind == "named":
            body["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
        elif choice.kind != "auto":
            body["tool_choice"] = choice.kind
        if not choice.is_parallel:
            body["parallel_tool_calls"] = False
    if request.output.kind == "json":
        body["response_format"] = {"type": "json_object"}
    elif request.output.kind == "schema":
        schema: Json = {
            "name": request.output.name or "answer",
            "schema": dict(request.output.schema),
            "strict": True,
        }
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.is_streamed:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def _write_tool(tool: ToolDefinition) -> Json:
    function: Json = {
        "name": tool.name,
        "parameters": arguments_schema(tool),
    }
    if tool.description:
        function["description"] = tool.description
    return function | ({"strict": True} if tool.is_strict else {})


def _write_message(message: Message) -> list[JsonValue]:
    """One line, or one for each result."""
    if message.lines:
        return list(message.lines)
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    if results:
        return [
            {"role": "tool", "tool_call_id": part.call_id, "content": _write_content(part.parts)}
            for part in results
        ]
    return [{"role": message.role, **write_parts(message.parts)}]


def write_parts(parts: tuple[Part, ...]) -> Json:
    """The fields of an assistant's or a user's message: content, thoughts and calls."""
    content = tuple(part for part in parts if isinstance(part, Text | Image))
    calls: list[JsonValue] = [
        {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}}
        for part in parts
        if isinstance(part, ToolCall)
    ]
    thought = "".join(part.text for part in parts if isinstance(part, Reasoning))
    line: Json = {"content": _write_content(content) if content or not calls else None}
    if thought:
        line["reasoning_content"] = thought
    return line | ({"tool_calls": calls} if calls else {})


def _write_content(parts: tuple[Text | Image, ...]) -> JsonValue:
    """Plain text where there are no images."""
    if (text := plain_text(parts)) is not None:
        return text
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image_url", "image_url": {"url": write_image(part)}}
        for part in parts
    ]


def read_answer(body: bytes) -> ModelAnswer:
    """Raises ModelError for what is not an answer."""
    try:
        wire = _Answer.model_validate_json(body)
        choice = wire.choices[0]
        message = _read_message(choice.message, 0)
    except (ValidationError, RequestError) as exc:
        raise ModelError(f"not a chat completion: {body[:300]!r}") from exc
    calls = any(isinstance(part, ToolCall) for part in message.parts)
    finish = FINISH.get(choice.finish_reason or "stop", "stop")
    usage = wire.usage.counted() if wire.usage else TokenUsage()
    sent = choice.message.model_dump(mode="json", exclude_none=True)
    line = {name: value for name, value in sent.items() if value != []}
    return ModelAnswer(
        wire.id,
        wire.model,
        message.parts,
        "tool_calls" if calls and finish == "stop" else finish,
        usage,
        ({"content": None, **line, "role": "assistant"},),
    )


def write_answer(answer: ModelAnswer, request: ModelRequest) -> Json:  # noqa: ARG001  as in the protocol
    """As the client expects it."""
    return {
        "id": answer.id,
        "object": "chat.completion",
        "created": int(time()),
        "model": answer.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "refusal": None, **write_parts(answer.parts)},
                "logprobs": None,
                "finish_reason": answer.finish,
            }
        ],
        "usage": write_usage(answer.usage),
    }


def write_usage(usage: TokenUsage) -> Json:
    """The usage field."""
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def write_error(error: RequestError) -> Json:
    """As OpenAI writes it."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return {
        "error": {"message": str(error), "type": kind, "param": error.field or None, "code": error.code},
    }
