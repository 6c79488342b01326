"""Chat completions as OpenAI and vLLM serve them."""

import base64
import json
from collections.abc import Iterator
from typing import Any

from tests.gateway.clients.brain import THOUGHT, Question, Reply
from tests.gateway.clients.refusal import need, pieces

Json = dict[str, Any]


def question(body: Json) -> Question:
    """The question in a request."""
    asked = Question(
        tools={tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools", ())}
    )
    asked.must_call = body.get("tool_choice") not in (None, "auto", "none")
    if body.get("tool_choice") == "none":
        asked.tools = {}
    if body.get("response_format", {}).get("type") == "json_schema":
        asked.schema = body["response_format"]["json_schema"]["schema"]
    open_calls: list[str] = []
    results: dict[str, str] = {}
    for message in body["messages"]:
        role, content = message["role"], message.get("content")
        if role == "tool":
            need(message["tool_call_id"] in open_calls, f"no open call {message['tool_call_id']!r}")
            results[message["tool_call_id"]] = _text(content)
            continue
        need(all(call in results for call in open_calls), f"calls without results: {open_calls}")
        if role in ("system", "developer"):
            asked.system = _text(content)
        elif role == "user":
            asked.text, asked.users, asked.answers = _text(content), asked.users + 1, 0
            asked.image_bytes = _image_bytes(content)
            open_calls, results = [], {}
        else:
            asked.answers += 1
            open_calls += [call["id"] for call in message.get("tool_calls") or ()]
            for call in message.get("tool_calls") or ():
                need(isinstance(json.loads(call["function"]["arguments"]), dict), "arguments must be an object")
    need(all(call in results for call in open_calls), f"calls without results: {open_calls}")
    asked.results = [results[call] for call in open_calls]
    return asked


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part["text"] for part in content if part["type"] == "text")


def _image_bytes(content: Any) -> int:
    if isinstance(content, str):
        return 0
    urls = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    return sum(len(base64.b64decode(url.removeprefix("data:image/png;base64,"), validate=True)) for url in urls)


def _usage(reply: Reply) -> Json:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reply.thought_tokens, "audio_tokens": 0},
    }


def _calls(reply: Reply) -> list[Json]:
    return [
        {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for index, (name, arguments) in enumerate(reply.calls)
    ]


def whole(reply: Reply, body: Json) -> Json:
    """A whole answer."""
    message: Json = {"role": "assistant", "content": reply.text or None, "refusal": None, "annotations": []}
    message["reasoning_content"] = THOUGHT
    if reply.calls:
        message["tool_calls"] = _calls(reply)
    finish = "tool_calls" if reply.calls else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": _usage(reply),
        "system_fingerprint": "fp_1",
    }


def stream(reply: Reply, body: Json) -> Iterator[str]:
    """A streamed answer."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    has_usage = (body.get("stream_options") or {}).get("include_usage")

    def chunk(delta: Json, finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event({**head, "choices": [choice], **({"usage": None} if has_usage else {})})

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(THOUGHT, 8):
        yield chunk({"reasoning_content": piece})
    for piece in pieces(reply.text):
        yield chunk({"content": piece})
    for index, call in enumerate(_calls(reply)):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield chunk({"tool_calls": [{**call, "index": index, "function": function}]})
        for piece in pieces(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if reply.calls else "stop")
    if has_usage:
        yield _event({**head, "choices": [], "usage": _usage(reply)})
    yield "data: [DONE]\n\n"


def _event(body: Json) -> str:
    return f"data: {json.dumps(body)}\n\n"
