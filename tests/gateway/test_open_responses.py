"""The compliance cases of Open Responses (openresponses.org), done again.

Text, stream, system prompt, tool calls whole and streamed, an image, several turns. The schemas are those of its
OpenAPI document, as far as answers use them.
"""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.test_app import client_of
from upturn.dialects import FinishReason, Image, Message, Reasoning, Text, ToolCall
from upturn.pool import Pool

NUMBER = (int, float)
NULL = type(None)
RESPONSE: Mapping[str, Any] = {
    "id": str,
    "object": str,
    "created_at": int,
    "completed_at": (int, NULL),
    "status": str,
    "incomplete_details": (dict, NULL),
    "model": str,
    "previous_response_id": (str, NULL),
    "instructions": (str, NULL),
    "output": list,
    "error": (dict, NULL),
    "tools": list,
    "tool_choice": (str, dict),
    "truncation": str,
    "parallel_tool_calls": bool,
    "text": dict,
    "top_p": NUMBER,
    "presence_penalty": NUMBER,
    "frequency_penalty": NUMBER,
    "top_logprobs": int,
    "temperature": NUMBER,
    "reasoning": (dict, NULL),
    "usage": (dict, NULL),
    "max_output_tokens": (int, NULL),
    "max_tool_calls": (int, NULL),
    "store": bool,
    "background": bool,
    "service_tier": str,
    "metadata": dict,
    "safety_identifier": (str, NULL),
    "prompt_cache_key": (str, NULL),
}
"""Required fields of a response, and their types."""
ITEMS: Mapping[str, Mapping[str, Any]] = {
    "message": {"id": str, "status": str, "role": str, "content": list},
    "function_call": {"id": str, "call_id": str, "name": str, "arguments": str, "status": str},
    "reasoning": {"id": str, "summary": list},
}
USAGE = ("input_tokens", "output_tokens", "total_tokens")
ITEM_EVENT = {"output_index": int, "item": dict}
PART = {"item_id": str, "output_index": int, "content_index": int}
SUMMARY = {"item_id": str, "output_index": int, "summary_index": int}
EVENTS: Mapping[str, Mapping[str, Any]] = {
    "response.created": {"response": dict},
    "response.in_progress": {"response": dict},
    "response.completed": {"response": dict},
    "response.output_item.added": ITEM_EVENT,
    "response.output_item.done": ITEM_EVENT,
    "response.content_part.added": {**PART, "part": dict},
    "response.content_part.done": {**PART, "part": dict},
    "response.output_text.delta": {**PART, "delta": str, "logprobs": list},
    "response.output_text.done": {**PART, "text": str, "logprobs": list},
    "response.reasoning_summary_part.added": {**SUMMARY, "part": dict},
    "response.reasoning_summary_part.done": {**SUMMARY, "part": dict},
    "response.reasoning_summary_text.delta": {**SUMMARY, "delta": str},
    "response.reasoning_summary_text.done": {**SUMMARY, "text": str},
    "response.function_call_arguments.delta": {"item_id": str, "output_index": int, "delta": str},
    "response.function_call_arguments.done": {"item_id": str, "output_index": int, "arguments": str},
}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string", "description": "The city and state"}},
        "required": ["location"],
    },
}
ARGUMENTS = '{"location": "San Francisco, CA"}'


def said(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def check(value: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Asserts that the fields of the schema are there and have its types."""
    assert schema.keys() <= value.keys(), schema.keys() - value.keys()
    wrong = {name: value[name] for name, kind in schema.items() if not isinstance(value[name], kind)}
    assert not wrong


def check_response(response: Mapping[str, Any]) -> None:
    check(response, RESPONSE)
    for item in response["output"]:
        check(item, ITEMS[item["type"]])
    if response["usage"] is not None:
        check(response["usage"], dict.fromkeys(USAGE, int))
        check(response["usage"]["input_tokens_details"], {"cached_tokens": int})
        check(response["usage"]["output_tokens_details"], {"reasoning_tokens": int})
    for tool in response["tools"]:
        check(tool, {"type": str, "name": str, "description": (str, NULL), "parameters": (dict, NULL)})


@pytest.fixture
def pool(tmp_path: Path) -> Any:
    with Pool.open(tmp_path / "pool.db") as opened:
        yield opened


async def answers(
    pool: Pool, request: dict[str, Any], *parts: Text | ToolCall | Reasoning
) -> AsyncIterator[tuple[dict[str, Any], list[dict[str, Any]], tuple[Message, ...]]]:
    """The response, its events and what the upstream was asked: whole, then streamed."""
    async with client_of(pool) as (client, desk, _):
        for upstream in desk.upstreams.values():
            finish: FinishReason = "tool_calls" if any(isinstance(part, ToolCall) for part in parts) else "stop"
            upstream.answer_with(*parts, finish=finish)
        for streamed in (False, True):
            answer = await client.post("/v1/responses", json={"model": "default", **request, "stream": streamed})
            assert answer.status_code == 200, answer.text
            events = [
                json.loads(event.partition("data: ")[2]) for event in answer.text.strip().split("\n\n") if streamed
            ]
            for number, event in enumerate(events):
                assert event["sequence_number"] == number
                check(event, EVENTS[event["type"]])
            response = events[-1]["response"] if streamed else answer.json()
            check_response(response)
            assert response["status"] == "completed"
            [asked] = [upstream.calls.pop() for upstream in desk.upstreams.values() if upstream.calls]
            yield response, events, asked.request.messages


def text_of(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] for part in item.get("content", ()))


async def test_text_whole_and_streamed(pool: Pool) -> None:
    asked = {"input": [said("user", "Say hello in exactly 3 words.")]}
    async for response, events, _ in answers(pool, asked, Reasoning("Three."), Text("Hello to you")):
        assert text_of(response) == "Hello to you"
        assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
        deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
        assert "".join(deltas) == ("Hello to you" if events else "")
        for event in events[:2]:
            check_response(event["response"])
            assert event["response"]["status"] == "in_progress"


async def test_a_system_prompt(pool: Pool) -> None:
    asked = {"input": [said("system", "You are a pirate."), said("user", "Say hello.")]}
    async for response, _, messages in answers(pool, asked, Text("Ahoy!")):
        assert text_of(response) == "Ahoy!"
        assert [message.role for message in messages] == ["system", "user"]


async def test_a_tool_call(pool: Pool) -> None:
    asked = {"input": [said("user", "What is the weather like in San Francisco?")], "tools": [WEATHER]}
    async for response, events, _ in answers(pool, asked, ToolCall("call_1", "get_weather", ARGUMENTS)):
        [item] = response["output"]
        assert (item["type"], item["call_id"], item["arguments"]) == ("function_call", "call_1", ARGUMENTS)
        assert [tool["name"] for tool in response["tools"]] == ["get_weather"]
        kinds = [event["type"] for event in events]
        assert not events or kinds[2:-1] == [
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
        ]


async def test_an_image(pool: Pool) -> None:
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}
    content = [{"type": "input_text", "text": "What do you see?"}, picture]
    async for response, _, [message] in answers(pool, {"input": [said("user", content)]}, Text("A pixel.")):
        assert text_of(response) == "A pixel."
        assert message.parts == (Text("What do you see?"), Image("image/png", PIXEL))


async def test_several_turns(pool: Pool) -> None:
    turns = [said("user", "My name is Alice."), said("assistant", "Hello Alice!"), said("user", "What is my name?")]
    async for response, _, messages in answers(pool, {"input": turns}, Text("Alice")):
        assert text_of(response) == "Alice"
        assert [message.role for message in messages] == ["user", "assistant", "user"]


async def test_a_schema_is_shown_in_the_response(pool: Pool) -> None:
    form = {"type": "json_schema", "name": "city", "schema": {"type": "object"}, "strict": True}
    async for response, _, _ in answers(pool, {"input": "hi", "text": {"format": form}}, Text("{}")):
        assert response["text"] == {"format": form}
