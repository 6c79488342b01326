"""Spans of traces, and the conversations in them: OpenTelemetry's GenAI names, old and new, and OpenInference's.

The sources are the semantic conventions: ``gen_ai.input.messages`` and ``gen_ai.output.messages`` (1.37), the
events ``gen_ai.*.message`` and ``gen_ai.choice`` (1.28 to 1.36), ``gen_ai.content.prompt`` and ``.completion``
(before), the indexed ``gen_ai.prompt.0.role`` of OpenLLMetry, and OpenInference's
``llm.input_messages.0.message.role``. Not here: file formats (``otlp``, ``phoenix``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json, to_json

from upturn.pool.ingestion.formats.conversation import LineError
from upturn.pool.ingestion.formats.recorded import Recorded, printable_name, unit_score

_MODEL_OPERATIONS = ("", "chat", "text_completion", "generate_content")
"""Of spans that are model calls; the spans around them repeat their messages."""
_MODEL_KINDS = ("", "LLM")


@dataclass(frozen=True, slots=True)
class Span:
    """One span."""

    trace_id: str
    span_id: str
    start: int
    """Nanoseconds since 1970; 0 = unknown."""
    attributes: Mapping[str, Any]
    events: Sequence[tuple[str, Mapping[str, Any]]] = ()
    """Name and attributes."""
    error: str = ""
    """Empty = it has not failed."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """In [0, 1], by name, of annotations beside the span."""

    @property
    def is_model_call(self) -> bool:
        """Whether a model was called, with or without recorded messages."""
        names = self.attributes
        kind = str(names.get("openinference.span.kind", "")).upper()
        operation = str(names.get("gen_ai.operation.name", ""))
        is_named = any(name.startswith(("gen_ai.", "llm.")) for name in names) or any(
            name.startswith("gen_ai.") for name, _ in self.events
        )
        return is_named and kind in _MODEL_KINDS and operation in _MODEL_OPERATIONS


@dataclass(slots=True)
class _Exchange:
    """What a model call read and wrote."""

    read: list[dict[str, Any]]
    written: list[dict[str, Any]]
    tools: list[Any]


def conversations_in(spans: Sequence[Span]) -> Iterator[Recorded | LineError]:
    """Yields the conversations of a trace: model calls that read what an earlier one read and wrote are one."""
    found: list[tuple[list[dict[str, Any]], Span, list[Any], list[Span]]] = []
    for span in sorted(spans, key=lambda span: span.start):
        if not span.is_model_call:
            continue
        try:
            exchange = _exchange(span)
        except ValueError as exc:
            yield LineError(f"span {span.span_id}: {exc}")
            continue
        if not exchange.read and not exchange.written:
            yield LineError(
                f"span {span.span_id} has no messages; turn on the recording of content where the spans are made "
                "(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, TRACELOOP_TRACE_CONTENT=true)"
            )
            continue
        messages = exchange.read + exchange.written
        for index, (earlier, first, tools, members) in enumerate(found):
            if _comparable(exchange.read[: len(earlier)]) == _comparable(earlier):
                found[index] = (messages, first, exchange.tools or tools, [*members, span])
                break
        else:
            found.append((messages, span, exchange.tools, [span]))
    for messages, first, tools, members in found:
        yield _recorded(messages, first, tools, members)


def _comparable(messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Returns the messages without what instrumentations add or leave out."""
    return [
        (
            message["role"],
            message.get("content") or "",
            [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", ())],
        )
        for message in messages
    ]


def _recorded(messages: list[Any], first: Span, tools: list[Any], members: Sequence[Span]) -> Recorded:
    last = members[-1].attributes
    model = last.get("gen_ai.response.model") or last.get("gen_ai.request.model") or last.get("llm.model_name")
    session = last.get("gen_ai.conversation.id") or last.get("session.id")
    scores = {name: score for span in members for name, score in _scores(span).items()}
    extra: dict[str, Any] = {"trace": first.trace_id, "span": first.span_id}
    if session:
        extra["session"] = str(session)
    if scores:
        extra["scores"] = scores
    return Recorded(
        messages,
        tools,
        printable_name(last.get("gen_ai.agent.name")),
        printable_name(model),
        identity=f"{first.trace_id}:{first.span_id}",
        reward=next(iter(scores.values())) if len(scores) == 1 else None,
        error=members[-1].error,
        extra=extra,
        tags=last.get("langfuse.trace.tags") or last.get("tag.tags"),
    )


def _scores(span: Span) -> dict[str, float]:
    scores = dict(span.scores)
    for name, values in span.events:
        if name == "gen_ai.evaluation.result":
            score = unit_score(values.get("gen_ai.evaluation.score.value"))
            if score is not None:
                scores[str(values.get("gen_ai.evaluation.name", "score"))] = score
    return scores


def _exchange(span: Span) -> _Exchange:
    names: dict[str, Any] = dict(span.attributes)
    for event, values in span.events:
        if event in (
            "gen_ai.client.inference.operation.details",
            "gen_ai.content.prompt",
            "gen_ai.content.completion",
        ):
            names |= values
    tools = [_tool(tool) for tool in _list(names.get("gen_ai.tool.definitions"))]
    if "gen_ai.input.messages" in names or "gen_ai.output.messages" in names:
        system = _from_parts({"role": "system", "parts": _list(names.get("gen_ai.system_instructions"))})
        read = [entry for message in _list(names.get("gen_ai.input.messages")) for entry in _from_parts(message)]
        written = [
            entry for message in _list(names.get("gen_ai.output.messages")) for entry in _from_parts(message)
        ]
        return _Exchange([message for message in system if message["content"]] + read, written[:1], tools)
    if any(name.startswith("llm.input_messages.") or name.startswith("llm.output_messages.") for name in names):
        tree = _tree(names, "llm.")
        tools = [_tool(entry.get("tool", {}).get("json_schema")) for entry in _items(tree.get("tools"))]
        read = [_openinference(entry) for entry in _items(tree.get("input_messages"))]
        return _Exchange(read, [_openinference(entry) for entry in _items(tree.get("output_messages"))][:1], tools)
    if any(name.startswith(("gen_ai.prompt.", "gen_ai.completion.")) for name in names):
        tree = _tree(names, "gen_ai.")
        read = [_indexed(entry, "user") for entry in _items(tree.get("prompt"))]
        return _Exchange(
            read, [_indexed(entry, "assistant") for entry in _items(tree.get("completion"))][:1], tools
        )
    if "gen_ai.prompt" in names or "gen_ai.completion" in names:
        read = [_plain(entry, "user") for entry in _list(names.get("gen_ai.prompt"))]
        written = [_plain(entry, "assistant") for entry in _list(names.get("gen_ai.completion"))]
        return _Exchange(read, written[:1], tools)
    return _from_events(span, tools)


def _from_events(span: Span, tools: list[Any]) -> _Exchange:
    exchange = _Exchange([], [], tools)
    for name, values in span.events:
        if name == "gen_ai.choice" and not exchange.written:
            message = values.get("message", values)
            message = _parsed(message) if isinstance(message, str) else message
            exchange.written.append(_plain(message if isinstance(message, dict) else values, "assistant"))
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            role = name.removeprefix("gen_ai.").removesuffix(".message")
            exchange.read.append(_plain(values, role))
    return exchange


def _from_parts(message: Any) -> list[dict[str, Any]]:
    """Returns a message of parts as one in OpenAI's form, and each result of a tool as one of its own."""
    if not isinstance(message, dict):
        raise ValueError("a message is no object")
    texts: list[Any] = []
    calls: list[Any] = []
    results: list[dict[str, Any]] = []
    thoughts: list[str] = []
    for part in _list(message.get("parts")):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            texts.append({"type": "text", "text": part.get("content")})
        elif kind == "reasoning":
            thoughts.append(str(part.get("content", "")))
        elif kind == "tool_call":
            calls.append(_call(part.get("id"), part.get("name"), part.get("arguments")))
        elif kind == "tool_call_response":
            response = part.get("response", part.get("result"))
            results.append({"role": "tool", "tool_call_id": part.get("id"), "content": _as_text(response)})
        else:
            texts.append({"type": str(kind)})
    if results and not texts and not calls:
        return results
    return [*results, _message(str(message.get("role")), _joined(texts), calls, thoughts)]


def _joined(texts: list[Any]) -> Any:
    return texts[0]["text"] if len(texts) == 1 and "text" in texts[0] else texts or ""


def _openinference(entry: Any) -> dict[str, Any]:
    message = entry.get("message", {}) if isinstance(entry, dict) else {}
    parts = [part.get("message_content", {}) for part in _items(message.get("contents"))]
    content = message.get("content", [_openinference_part(part) for part in parts] or "")
    calls = []
    for wrapped in _items(message.get("tool_calls")):
        call = wrapped.get("tool_call", {})
        function = call.get("function", {})
        calls.append(_call(call.get("id"), function.get("name"), function.get("arguments")))
    told = _message(str(message.get("role")), content, calls, [])
    return told | ({"tool_call_id": message["tool_call_id"]} if "tool_call_id" in message else {})


def _openinference_part(part: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "text", "text": part["text"]} if "text" in part else {"type": str(part.get("type", "image"))}


def _indexed(entry: Any, role: str) -> dict[str, Any]:
    calls = [
        _call(call.get("id"), call.get("name"), call.get("arguments")) for call in _items(entry.get("tool_calls"))
    ]
    content = entry.get("content", "")
    parsed = _parsed(content) if isinstance(content, str) and content.startswith("[{") else content
    told = _message(str(entry.get("role", role)), parsed if isinstance(parsed, list) else content, calls, [])
    return told | ({"tool_call_id": entry["tool_call_id"]} if "tool_call_id" in entry else {})


def _plain(values: Any, role: str) -> dict[str, Any]:
    """Returns a message whose fields are those of a request, some of them as JSON text."""
    if isinstance(values, str):
        return _message(role, values, [], [])
    if not isinstance(values, dict):
        raise ValueError("a message is no object")
    calls = []
    for call in _list(values.get("tool_calls")):
        function = call.get("function", call) if isinstance(call, dict) else {}
        calls.append(_call(call.get("id"), function.get("name"), function.get("arguments")))
    told = _message(str(values.get("role", role)), values.get("content"), calls, [])
    identity = values.get("id", values.get("tool_call_id"))
    return told | ({"tool_call_id": identity} if told["role"] == "tool" and identity else {})


def _message(role: str, content: Any, calls: list[Any], thoughts: list[str]) -> dict[str, Any]:
    return {
        "role": {"ai": "assistant", "model": "assistant", "human": "user"}.get(role, role),
        "content": content if isinstance(content, str | list) or content is None else _as_text(content),
        **({"tool_calls": calls} if calls else {}),
        **({"reasoning_content": "".join(thoughts)} if thoughts else {}),
    }


def _call(identity: Any, name: Any, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else to_json(arguments or {}).decode()
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": text}}


def _tool(tool: Any) -> Any:
    parsed = _parsed(tool) if isinstance(tool, str) else tool
    if isinstance(parsed, dict) and "function" not in parsed and "name" in parsed:
        return {"type": "function", "function": {key: parsed[key] for key in parsed if key != "type"}}
    return parsed


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else to_json(value).decode()


def _parsed(text: str) -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return text


def _list(value: Any) -> list[Any]:
    """Returns a list that is given as such or as JSON; raises ValueError for anything else."""
    parsed = _parsed(value) if isinstance(value, str) else value
    if parsed is None:
        return []
    if isinstance(value, str) and not isinstance(parsed, list):
        return [parsed]
    if not isinstance(parsed, list):
        raise ValueError(f"messages must be a list or JSON text of one, got {type(parsed).__name__}")
    return parsed


def _tree(names: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Returns attributes with dotted names as nested objects."""
    tree: dict[str, Any] = {}
    for name, value in names.items():
        if name.startswith(prefix):
            *path, last = name.removeprefix(prefix).split(".")
            node = tree
            for key in path:
                child = node.setdefault(key, {})
                node = child if isinstance(child, dict) else node.setdefault(f"{key}.", {})
            node[last] = value
    return tree


def _items(node: Any) -> list[Any]:
    """Returns the entries of a nested list, ordered by index."""
    if isinstance(node, list):
        return [entry for entry in node if isinstance(entry, dict)]
    if not isinstance(node, dict):
        return []
    numbered = [(int(key), entry) for key, entry in node.items() if key.isdecimal() and isinstance(entry, dict)]
    return [entry for _, entry in sorted(numbered, key=lambda pair: pair[0])]
