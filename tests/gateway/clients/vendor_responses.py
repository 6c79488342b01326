"""Responses as OpenAI serves them, with reasoning items."""

import base64
import json
from collections.abc import Iterator
from typing import Any

from tests.gateway.clients.brain import THOUGHT, Question, Reply
from tests.gateway.clients.refusal import need, pieces

Json = dict[str, Any]


def question(body: Json) -> Question:
    """The question in a request."""
    asked = Question(tools={tool["name"]: tool["parameters"] for tool in body.get("tools", ())})
    asked.must_call = body.get("tool_choice") not in (None, "auto", "none")
    if body.get("tool_choice") == "none":
        asked.tools = {}
    form = body.get("text", {}).get("format", {})
    if form.get("type") == "json_schema":
        asked.schema = form["schema"]
    asked.system = body.get("instructions") or ""
    open_calls: list[str] = []
    results: dict[str, str] = {}
    text = body["input"]
    items = [{"role": "user", "content": text}] if isinstance(text, str) else text
    was_answer = False
    for item in items:
        kind, role = item.get("type", "message"), item.get("role")
        is_answer = kind in ("function_call", "reasoning") or role == "assistant"
        asked.answers += is_answer and not was_answer
        was_answer = is_answer
        if kind == "function_call":
            open_calls.append(item["call_id"])
        elif kind == "function_call_output":
            need(item["call_id"] in open_calls, f"no open call {item['call_id']!r}")
            results[item["call_id"]] = _text(item["output"])
        elif kind == "message" and role in ("system", "developer"):
            asked.system = _text(item["content"])
        elif kind == "message" and role == "user":
            asked.text, asked.users, asked.answers = _text(item["content"]), asked.users + 1, 0
            asked.image_bytes = _image_bytes(item["content"])
            open_calls, results = [], {}
        else:
            need(kind in ("message", "reasoning"), f"unknown item {kind!r}")
    need(all(call in results for call in open_calls), f"calls without results: {open_calls}")
    asked.results = [results[call] for call in open_calls]
    return asked


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _image_bytes(content: Any) -> int:
    if isinstance(content, str):
        return 0
    urls = [part["image_url"] for part in content if part["type"] == "input_image"]
    return sum(len(base64.b64decode(url.removeprefix("data:image/png;base64,"), validate=True)) for url in urls)


def _items(reply: Reply) -> list[Json]:
    summary = [{"type": "summary_text", "text": THOUGHT}]
    items: list[Json] = [{"type": "reasoning", "id": "rs_1", "summary": summary}]
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}]
        items.append(
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        )
    for index, (name, arguments) in enumerate(reply.calls):
        call = {"id": f"fc_{index}", "call_id": f"call_{index}", "name": name, "arguments": arguments}
        items.append({"type": "function_call", **call, "status": "completed"})
    return items


def whole(reply: Reply, body: Json) -> Json:
    """A whole answer."""
    usage = {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": reply.cached_tokens},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": reply.thought_tokens},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": None,
        "model": body["model"],
        "output": _items(reply),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "usage": usage,
        "metadata": {},
    }


def stream(reply: Reply, body: Json) -> Iterator[str]:
    """A streamed answer."""
    number = 0

    def event(kind: str, **fields: Any) -> str:
        nonlocal number
        number += 1
        return f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': number - 1, **fields})}\n\n"

    full = whole(reply, body)
    begun = full | {"status": "in_progress", "output": [], "usage": None}
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    for index, item in enumerate(full["output"]):
        where = {"item_id": item["id"], "output_index": index}
        empty = item | {"status": "in_progress"}
        match item["type"]:
            case "reasoning":
                yield event("response.output_item.added", output_index=index, item=item | {"summary": []})
                part = {"type": "summary_text", "text": ""}
                yield event("response.reasoning_summary_part.added", **where, summary_index=0, part=part)
                for piece in pieces(THOUGHT, 8):
                    yield event("response.reasoning_summary_text.delta", **where, summary_index=0, delta=piece)
                yield event("response.reasoning_summary_text.done", **where, summary_index=0, text=THOUGHT)
                done = part | {"text": THOUGHT}
                yield event("response.reasoning_summary_part.done", **where, summary_index=0, part=done)
            case "message":
                text = item["content"][0]
                yield event("response.output_item.added", output_index=index, item=empty | {"content": []})
                part = text | {"text": ""}
                yield event("response.content_part.added", **where, content_index=0, part=part)
                for piece in pieces(text["text"]):
                    yield event("response.output_text.delta", **where, content_index=0, delta=piece, logprobs=[])
                yield event("response.output_text.done", **where, content_index=0, text=text["text"], logprobs=[])
                yield event("response.content_part.done", **where, content_index=0, part=text)
            case _:
                yield event("response.output_item.added", output_index=index, item=empty | {"arguments": ""})
                for piece in pieces(item["arguments"]):
                    yield event("response.function_call_arguments.delta", **where, delta=piece)
                named = {"name": item["name"], "arguments": item["arguments"]}
                yield event("response.function_call_arguments.done", **where, **named)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=full)
