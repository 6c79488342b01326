"""Requests of all three dialects that ask the provider to run or fetch something."""

import copy
import json
from typing import Any

import pytest

from upturn.dialects import DIALECTS, RequestError
from upturn.gateway.access.provider_tools import screen

FUNCTION = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
HOSTED = "https://files.example/cat.png"
BY_VALUE = "data:image/png;base64,aGk="


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}


def responses(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "input": "hi", **fields}


def messages(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}], **fields}


def user(*blocks: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(blocks)}]


REFUSED: list[tuple[dict[str, Any], str]] = [
    (chat(web_search_options={}), "web_search_options (web search)"),
    (chat(search_parameters={"mode": "on"}), "search_parameters (web search)"),
    (chat(plugins=[{"id": "web"}]), "plugins (plugins)"),
    (chat(tools=[{"type": "web_search"}]), "tools.0 (web search)"),
    (chat(tools=[FUNCTION, {"google_search": {}}]), "tools.1 (tool of type None)"),
    (
        chat(messages=user({"type": "image_url", "image_url": {"url": HOSTED}})),
        "messages.0.content.0 (image by URL)",
    ),
    (
        chat(messages=user({"type": "video_url", "video_url": {"url": HOSTED}})),
        "messages.0.content.0 (video by URL)",
    ),
    (chat(messages=user({"type": "file", "file": {"file_id": "f1"}})), "messages.0.content.0 (file by file id)"),
    (chat(tools=[{"type": ["function"], "function": {}}]), "tools.0 (tool of type ['function'])"),
    (responses(tools=[{"type": "web_search_preview_2025_03_11"}]), "tools.0 (web search)"),
    (responses(tools=[{"type": "code_interpreter", "container": {"type": "auto"}}]), "tools.0 (code execution)"),
    (responses(tools=[{"type": "mcp", "server_label": "x", "server_url": HOSTED}]), "tools.0 (remote MCP server)"),
    (responses(tools=[{"type": "computer_use_preview"}]), "tools.0 (computer use)"),
    (responses(tools=[{"type": "file_search", "vector_store_ids": ["v"]}]), "tools.0 (file search)"),
    (responses(tools=[{"type": "image_generation"}]), "tools.0 (image generation)"),
    (responses(tools=[{"type": "Function", "name": "add"}]), "tools.0 (tool of type 'Function')"),
    (responses(input=user({"type": "input_image", "image_url": HOSTED})), "input.0.content.0 (image by URL)"),
    (responses(input=user({"type": "input_image", "file_id": "f1"})), "input.0.content.0 (file by file id)"),
    (responses(input=user({"type": "input_file", "file_url": HOSTED})), "input.0.content.0 (file by URL)"),
    (
        responses(
            input=[
                {
                    "type": "function_call_output",
                    "call_id": "c",
                    "output": [{"type": "input_image", "image_url": "HTTPS://x"}],
                }
            ]
        ),
        "input.0.output.0 (image by URL)",
    ),
    (messages(tools=[{"type": "web_search_20250305", "name": "web_search"}]), "tools.0 (web search)"),
    (messages(tools=[{"type": "web_fetch_20250910", "name": "web_fetch"}]), "tools.0 (web fetch)"),
    (messages(tools=[{"type": "code_execution_20250825", "name": "code"}]), "tools.0 (code execution)"),
    (messages(tools=[{"type": "mcp_toolset", "mcp_server_name": "x"}]), "tools.0 (remote MCP server)"),
    (messages(tools=[{"type": "computer_20250124", "name": "computer"}]), "tools.0 (computer use)"),
    (messages(mcp_servers=[{"type": "url", "url": HOSTED}]), "mcp_servers (remote MCP server)"),
    (messages(container={"skills": []}), "container (code execution)"),
    (
        messages(messages=user({"type": "image", "source": {"type": "url", "url": HOSTED}})),
        "messages.0.content.0 (image by URL)",
    ),
    (
        messages(messages=user({"type": "document", "source": {"type": "file", "file_id": "f"}})),
        "messages.0.content.0 (document by file id)",
    ),
    (
        messages(
            messages=user(
                {
                    "type": "tool_result",
                    "tool_use_id": "c",
                    "content": [{"type": "image", "source": {"type": "url", "url": HOSTED}}],
                }
            )
        ),
        "messages.0.content.0.content.0 (image by URL)",
    ),
]

CLEAN: list[dict[str, Any]] = [
    chat(),
    chat(tools=[FUNCTION], tool_choice="auto", web_search_options=None, plugins=[]),
    chat(messages=user({"type": "image_url", "image_url": {"url": BY_VALUE}}, {"type": "text", "text": HOSTED})),
    chat(tools=[{"type": "custom", "custom": {"name": "grammar"}}]),
    responses(tools=[{"type": "function", "name": "add"}, {"type": "local_shell"}, {"type": "apply_patch"}]),
    responses(input=user({"type": "input_image", "image_url": BY_VALUE})),
    messages(tools=[{"name": "add", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"}]),
    messages(tools=[{"type": "text_editor_20250728", "name": "e"}, {"type": "memory_20250818", "name": "m"}]),
    messages(
        messages=user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}})
    ),
    {"tools": "?", "messages": {"a": 1}, "input": [None, 3, ["x"]], "system": "s"},
]


@pytest.mark.parametrize(("body", "what"), REFUSED, ids=[what for _, what in REFUSED])
def test_it_is_found_in_the_raw_request(body: dict[str, Any], what: str) -> None:
    before = copy.deepcopy(body)
    allowed = screen(body, "allow")
    assert allowed.body is body
    assert allowed.findings == (what,)
    with pytest.raises(RequestError) as error:
        screen(body, "refuse")
    assert (error.value.status, error.value.code, error.value.field) == (
        400,
        "provider_tool",
        what.partition(" ")[0],
    )
    assert what in str(error.value)
    stripped = screen(body, "strip")
    assert stripped.findings == (what,)
    assert screen(stripped.body, "refuse").findings == (), "nothing is left"
    assert HOSTED not in json.dumps(stripped.body)
    assert body == before, "the request itself is not changed"


@pytest.mark.parametrize("body", CLEAN)
def test_what_the_client_runs_and_values_pass_unchanged(body: dict[str, Any]) -> None:
    for policy in ("allow", "strip", "refuse"):
        assert screen(body, policy) == (body, ())
        assert screen(body, policy).body is body


def test_only_what_was_found_is_taken_out() -> None:
    text = {"type": "text", "text": "what is this?"}
    image = {"type": "image_url", "image_url": {"url": HOSTED}}
    body = chat(messages=user(text, image), tools=[{"type": "web_search"}, FUNCTION], tool_choice="auto", seed=3)
    stripped, findings = screen(body, "strip")
    assert findings == ("tools.0 (web search)", "messages.0.content.1 (image by URL)")
    removed = {"type": "text", "text": "[removed by the gateway: image by URL]"}
    assert stripped == chat(messages=user(text, removed), tools=[FUNCTION], tool_choice="auto", seed=3)


@pytest.mark.parametrize(
    ("tools", "choice", "left"),
    [
        ([{"type": "web_search"}], "required", None),
        ([{"type": "web_search"}, FUNCTION], {"type": "web_search"}, None),
        (
            [{"type": "web_search_20250305", "name": "search"}, {"name": "add"}],
            {"type": "tool", "name": "search"},
            None,
        ),
        (
            [{"type": "web_search_20250305", "name": "search"}, {"name": "add"}],
            {"type": "tool", "name": "add"},
            {"type": "tool", "name": "add"},
        ),
        (
            [{"type": "mcp", "server_label": "x"}, {"type": "function", "name": "add"}],
            {
                "type": "allowed_tools",
                "tools": [{"type": "mcp", "server_label": "x"}, {"type": "function", "name": "add"}],
            },
            {"type": "allowed_tools", "tools": [{"type": "function", "name": "add"}]},
        ),
        (
            [{"type": "mcp", "server_label": "x"}, {"type": "function", "name": "add"}],
            {"type": "allowed_tools", "tools": [{"type": "mcp", "server_label": "x"}]},
            None,
        ),
    ],
)
def test_a_choice_of_a_removed_tool_goes_with_it(tools: Any, choice: Any, left: Any) -> None:
    stripped = screen(responses(tools=tools, tool_choice=choice), "strip").body
    assert stripped.get("tool_choice") == left


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("chat", chat(tools=[{"type": "web_search"}], tool_choice="auto", messages=REFUSED[5][0]["messages"])),
        ("responses", responses(tools=[{"type": "mcp"}], input=REFUSED[16][0]["input"])),
        (
            "messages",
            messages(tools=[{"type": "web_search_20250305", "name": "s"}], messages=REFUSED[-1][0]["messages"]),
        ),
    ],
)
def test_a_stripped_request_is_a_request_of_its_dialect(name: Any, body: dict[str, Any]) -> None:
    request = DIALECTS[name].read_request(json.dumps(screen(body, "strip").body).encode())
    assert request.tools == ()


def test_deep_content_is_refused_with_every_policy() -> None:
    block: dict[str, Any] = {"type": "image_url", "image_url": {"url": HOSTED}}
    for _ in range(12):
        block = {"type": "tool_result", "content": [block]}
    for policy in ("allow", "strip", "refuse"):
        with pytest.raises(RequestError, match="nested too deeply"):
            screen(chat(messages=user(block)), policy)
