"""Unmodified clients against ``upturn up``, by base URL alone, in front of upstreams of all three dialects.

Whatever the upstream speaks, a client gets the same: texts, parallel calls, streams in pieces, usage, structured
output, images. ``vendor`` refuses what real servers refuse.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.gateway.clients.environment import PROGRAMS, needs_clients, run_client
from tests.gateway.clients.served import MODELS, Served

PLAIN = "Message 1: Hello (told: Be brief.)"
WEATHER = "rain in Oslo / rain in Rome"
CALLS = [["weather", {"city": "Oslo"}], ["weather", {"city": "Rome"}]]
AS_TEXT = [[name, json.dumps(arguments)] for name, arguments in CALLS]
IMAGE = "An image of 48 bytes."
REPORT = {"city": "Oslo", "degrees": 7}
THOUGHT = "The question is short."


def run(program: str, served: Served, folder: Path, models: Sequence[str] = MODELS) -> Any:
    """What a program prints about these models, as JSON."""
    output = run_client(
        ["python", PROGRAMS / f"{program}.py", *models],
        folder,
        OPENAI_BASE_URL=f"{served.address}/v1",
        OPENAI_API_KEY="none",
        ANTHROPIC_BASE_URL=served.address,
        ANTHROPIC_API_KEY="none",
        LITELLM_LOCAL_MODEL_COST_MAP="True",
    )
    return json.loads(output.splitlines()[-1])


@needs_clients
def test_openai(served: Served, tmp_path: Path) -> None:
    found = run("openai_client", served, tmp_path)
    assert found.pop("embeddings") == [[1.0, 1.0], [3.0, 1.0]]
    assert found.pop("unknown model") == {"status": 404, "code": "model_not_found", "param": "model"}
    assert set(MODELS) <= set(found.pop("models"))
    for model in MODELS:
        usage = [100, 64, 20, 5]
        assert found[model] == {
            "chat": {
                "plain": PLAIN,
                "usage": usage,
                "second": "Message 2: Again (told: Be brief.)",
                "finish": "tool_calls",
                "calls": AS_TEXT,
                "thought": THOUGHT,
                "after the calls": WEATHER,
                "image": IMAGE,
                "parsed": REPORT,
            },
            "chat stream": {
                "text": "Let me see.",
                "is in pieces": True,
                "calls": AS_TEXT,
                "finish": "tool_calls",
                "usage": usage,
                "usage unasked": [],
            },
            "responses": {
                "plain": PLAIN,
                "usage": usage,
                "calls": AS_TEXT,
                "after the calls": WEATHER,
                "image": IMAGE,
                "parsed": REPORT,
            },
            "responses stream": {
                "text": "Let me see.",
                "arguments": '{"city": "Oslo"}{"city": "Rome"}',
                "is in pieces": True,
                "calls": AS_TEXT,
                "last": "response.completed",
                "numbers": True,
                "tokens": 120,
            },
        }, model


@needs_clients
def test_anthropic(served: Served, tmp_path: Path) -> None:
    found = run("anthropic_client", served, tmp_path)
    assert found.pop("counted") == 100
    assert found.pop("unknown model") == "not_found_error"
    for model in MODELS:
        assert found[model] == {
            "whole": {
                "plain": PLAIN,
                "usage": [36, 64, 20],
                "stop": "tool_use",
                "calls": CALLS,
                "after the calls": WEATHER,
                "image": IMAGE,
                "parsed": {"city": "Oslo"},
            },
            "stream": {
                "thought": THOUGHT,
                "text": "Let me see.",
                "calls": CALLS,
                "stop": "tool_use",
                "output tokens": 20,
                "events": ["message_start", "message_stop"],
                "after the calls": WEATHER,
                "is in pieces": True,
            },
        }, model


@needs_clients
def test_langchain_and_langgraph(served: Served, tmp_path: Path) -> None:
    found = run("langchain_client", served, tmp_path)
    assert found.pop("embeddings") == [[1.0, 1.0], [3.0, 1.0]]
    for model in MODELS:
        for kind in ("chat", "responses", "messages"):
            # its package for Anthropic asks for structured output by a tool
            city = "Message 1: Hello" if kind == "messages" else "Oslo"
            assert found[model][kind] == {
                "plain": PLAIN,
                "usage": [100, 20],
                "cached": 64,
                "calls": CALLS,
                "after the calls": WEATHER,
                "streamed": ["Let me see.", CALLS],
                "is in pieces": True,
                "image": IMAGE,
                "parsed": {"city": city, "degrees": 7},
                "agent": ["human", "ai", "tool", "tool", "ai", WEATHER],
                "agent again": "Message 2: Thanks",
            }, (model, kind)


@needs_clients
def test_pydantic_ai(served: Served, tmp_path: Path) -> None:
    found = run("pydantic_ai_client", served, tmp_path)
    for model in MODELS:
        for kind in ("openai-chat", "openai", "anthropic"):
            assert found[model][kind] == {
                "plain": PLAIN,
                "usage": [100, 64, 20],
                "told": WEATHER,
                "calls": 2,
                "again": "Message 2: Thanks",
                "streamed": "Let me see.",  # it takes the first text for the answer
                "is in pieces": True,
                "image": IMAGE,
                "by tool": {"city": "Message 1: Hello", "degrees": 7},
                "by schema": None if kind == "anthropic" else REPORT,
            }, (model, kind)


@needs_clients
def test_openai_agents(served: Served, tmp_path: Path) -> None:
    found = run("openai_agents_client", served, tmp_path)
    for model in MODELS:
        for kind in ("responses", "chat_completions"):
            assert found[model][kind] == {
                "plain": PLAIN,
                "told": WEATHER,
                "usage": [2, 200, 128, 40],
                "again": "Message 2: Thanks",
                "streamed": WEATHER,
                "text": f"Let me see.{WEATHER}",
                "parsed": REPORT,
            }, (model, kind)


@needs_clients
def test_smolagents(served: Served, tmp_path: Path) -> None:
    """It always sends ``stop``, which an upstream that speaks Responses does not have."""
    models = ("chat", "messages")
    found = run("smolagents_client", served, tmp_path, models)
    for model in models:
        assert found[model] == {"calls": WEATHER, "streamed calls": WEATHER, "code": WEATHER}, model


@needs_clients
def test_mini_swe_agent(served: Served, tmp_path: Path) -> None:
    found = run("mini_swe_agent_client", served, tmp_path)
    solved = [{"exit_status": "Submitted", "submission": "one\ntwo\n"}, 2]
    assert found == {model: {"openai": solved, "anthropic": solved} for model in MODELS}
