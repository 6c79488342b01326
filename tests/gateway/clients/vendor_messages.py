"""Messages as Anthropic serves them, with extended thinking."""

import base64
import json
from collections.abc import Iterator
from typing import Any

from tests.gateway.clients.brain import THOUGHT, Question, Reply
from tests.gateway.clients.refusal import need, pieces

Json = dict[str, Any]
SIGNATURE = "c2lnbmVk"


def question(body: Json) -> Question:
    """The question in a request."""
    asked = Question(tools={tool["name"]: tool["input_schema"] for tool in body.get("tools", ())})
    kind = body.get("tool_choice", {}).get("type")
    asked.schema = body.get("output_config", {}).get("format", {}).get("schema")
    asked.must_call = kind in ("any", "tool")
    if kind == "none":
        asked.tools = {}
    if body.get("thinking", {}).get("type") == "enabled":
        need(1024 <= body["thinking"]["budget_tokens"] < body["max_tokens"], "the budget of thoughts")
        need(not asked.must_call, "thoughts and a call that must be made")
        need(body.get("temperature", 1) == 1, "thoughts and a temperature")
    asked.system = _text(body.get("system", ""))
    open_calls: list[str] = []
    results: dict[str, str] = {}
    role = ""
    for message in body["messages"]:
        need(
            message["role"] in ("user", "assistant") and message["role"] != role,
            f"roles alternate, got {role} twice",
        )
        role, content = message["role"], message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        need(blocks, "content is empty")
        kinds = [block["type"] for block in blocks]
        if role == "assistant":
            asked.answers += 1
            need("text" not in kinds or all(block.get("text", "x") for block in blocks), "empty text")
            open_calls += [block["id"] for block in blocks if block["type"] == "tool_use"]
            if body.get("thinking", {}).get("type") == "enabled" and "tool_use" in kinds:
                need(
                    kinds[0] == "thinking",
                    f"with thinking, an answer with calls begins with a thought, got {kinds}",
                )
            for block in blocks:
                need(block["type"] != "thinking" or block["signature"] == SIGNATURE, "a wrong signature")
            continue
        for block in blocks:
            if block["type"] == "tool_result":
                need(block["tool_use_id"] in open_calls, f"no open call {block['tool_use_id']!r}")
                results[block["tool_use_id"]] = _text(block["content"])
        need(all(call in results for call in open_calls), f"calls without results: {open_calls}")
        if "tool_result" not in kinds:
            asked.text, asked.users, asked.answers = _text(blocks), asked.users + 1, 0
            asked.image_bytes = _image_bytes(blocks)
            open_calls, results = [], {}
    asked.results = [results[call] for call in open_calls]
    return asked


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _image_bytes(blocks: Any) -> int:
    sources = [block["source"] for block in blocks if block["type"] == "image"]
    need(all(source["media_type"] == "image/png" for source in sources), "the media type of an image")
    return sum(len(base64.b64decode(source["data"], validate=True)) for source in sources)


def _usage(reply: Reply) -> Json:
    return {
        "input_tokens": reply.input_tokens - reply.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": reply.cached_tokens,
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"thinking_tokens": reply.thought_tokens},
        "service_tier": "standard",
    }


def _blocks(reply: Reply, body: Json) -> list[Json]:
    blocks: list[Json] = []
    if body.get("thinking", {}).get("type") == "enabled":
        blocks.append({"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    for index, (name, arguments) in enumerate(reply.calls):
        blocks.append({"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": json.loads(arguments)})
    return blocks


def whole(reply: Reply, body: Json) -> Json:
    """A whole answer."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": _blocks(reply, body),
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": _usage(reply),
    }


def stream(reply: Reply, body: Json) -> Iterator[str]:
    """A streamed answer."""
    message = whole(reply, body) | {"content": [], "stop_reason": None}
    message["usage"] = {"input_tokens": 36, "cache_read_input_tokens": 64, "output_tokens": 1}
    yield _event("message_start", message=message)
    yield _event("ping")
    for index, block in enumerate(_blocks(reply, body)):
        match block["type"]:
            case "thinking":
                empty: Json = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(THOUGHT, 8)]
                deltas.append({"type": "signature_delta", "signature": SIGNATURE})
            case "text":
                empty = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
            case _:
                empty = block | {"input": {}}
                texts = ["", *pieces(json.dumps(block["input"]))]
                deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in texts]
        yield _event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    stop = {"stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None}
    yield _event("message_delta", delta=stop, usage=_usage(reply))
    yield _event("message_stop")


def _event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"
