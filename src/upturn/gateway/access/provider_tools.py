"""What a request asks the provider to run or to fetch: finds it, takes it out, or refuses the request.

A provider that runs a web search, code or a remote MCP server, or fetches an image by its address, gives an agent a
network that it may not have. The rules hold for the raw JSON of all three dialects at once, because upstreams
accept fields of other dialects too. Tools that the client runs are listed; any other type counts as the provider's.

Not covered: what the provider does without being asked, such as models that always search (``sonar``), and
addresses in texts.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from upturn.config import ProviderToolPolicy
from upturn.dialects import Json, RequestError
from upturn.records import JsonValue

_CLIENT_TYPES = frozenset({"function", "custom", "local_shell", "apply_patch"})
_CLIENT_STARTS = ("bash_", "text_editor_", "memory_")
"""Anthropic's tools that the client runs; a date follows."""

_KINDS = (
    ("web_search", "web search"),
    ("web_fetch", "web fetch"),
    ("code_", "code execution"),
    ("shell", "code execution"),
    ("mcp", "remote MCP server"),
    ("computer", "computer use"),
    ("file_search", "file search"),
    ("image_generation", "image generation"),
)
"""Start of a tool's type, and what it is called in messages."""

_FIELDS: Mapping[str, str] = {
    "web_search_options": "web search",
    "search_parameters": "web search",
    "plugins": "plugins",
    "mcp_servers": "remote MCP server",
    "container": "code execution",
}
"""Fields of requests: OpenAI, xAI, OpenRouter, and Anthropic's last two."""

_MEDIA_FIELDS = ("image_url", "video_url", "audio_url", "file_url")
_HOLDERS = frozenset({*_MEDIA_FIELDS, "source", "file", "file_id"})
"""Fields of content blocks that may hold an address."""
_CONVERSATIONS = ("messages", "input", "system")
_NESTED = ("content", "output")
"""Fields of messages, items and blocks that hold content blocks."""
_DEEPEST = 8
"""Content blocks are nested at most twice in valid requests."""


class Screened(NamedTuple):
    """A request after screening."""

    body: Json
    """The same object if nothing was found."""
    findings: tuple[str, ...]
    """What was found, such as ``tools.0 (web search)``; with ``strip`` it is not in ``body``."""


def screen(body: Json, policy: ProviderToolPolicy) -> Screened:
    """Returns the request as the policy lets it pass; does not change ``body``.

    Raises RequestError with ``refuse`` if there is something to run or fetch.
    """
    if not _may_hold_any(body):
        return Screened(body, ())
    screening = _Screening()
    stripped = screening.request(body)
    findings = tuple(screening.findings)
    if not findings:
        return Screened(body, ())
    if policy == "refuse":
        raise RequestError(
            f"{', '.join(findings)}: the provider would run or fetch this, which the route does not allow; remove "
            "it, send images and files by value, or set provider_tools of the route",
            code="provider_tool",
            field=findings[0].partition(" ")[0],
        )
    return Screened(stripped if policy == "strip" else body, findings)


def _may_hold_any(body: Json) -> bool:
    """Whether the request must be screened in full; False for most, after a scan that copies nothing."""
    if not _FIELDS.keys().isdisjoint(body):
        return True
    tools = body.get("tools")
    if isinstance(tools, list) and any(isinstance(tool, dict) and not _is_run_by_client(tool) for tool in tools):
        return True
    lists = [body.get(name) for name in _CONVERSATIONS]
    while lists:
        blocks = lists.pop()
        if not isinstance(blocks, list):
            continue
        for block in blocks:
            if isinstance(block, dict):
                if not _HOLDERS.isdisjoint(block):
                    return True
                lists += [block.get(name) for name in _NESTED]
    return False


def _is_run_by_client(tool: Json) -> bool:
    kind = tool.get("type")
    if isinstance(kind, str):
        return kind in _CLIENT_TYPES or kind.startswith(_CLIENT_STARTS)
    return kind is None and ("name" in tool or "function" in tool)


class _Screening:
    """Copies a request without what the provider would run or fetch. Single use."""

    def __init__(self) -> None:
        self.findings: list[str] = []

    def request(self, body: Json) -> Json:
        kept = {name: value for name, value in body.items() if not self._is_provider_field(name, value)}
        if isinstance(tools := body.get("tools"), list):
            objects = [(index, tool) for index, tool in enumerate(tools) if isinstance(tool, dict)]
            removed = [tool for index, tool in objects if self._is_provider_tool(index, tool)]
            if removed:
                kept["tools"] = [tool for tool in tools if not any(tool is gone for gone in removed)]
                _mend_choice(kept, removed)
        for name in _CONVERSATIONS:
            if isinstance(body.get(name), list):
                kept[name] = self._blocks(body[name], name, text_type="input_text" if name == "input" else "text")
        return kept

    def _is_provider_field(self, name: str, value: JsonValue) -> bool:
        if name not in _FIELDS or not (value or name == "web_search_options") or value is None:
            return False  # an empty object of options asks for a search too
        self.findings.append(f"{name} ({_FIELDS[name]})")
        return True

    def _is_provider_tool(self, index: int, tool: Json) -> bool:
        if _is_run_by_client(tool):
            return False
        kind = tool.get("type")
        label = next(
            (label for start, label in _KINDS if str(kind).startswith(start)), f"tool of type {kind!r:.50}"
        )
        self.findings.append(f"tools.{index} ({label})")
        return True

    def _blocks(self, value: JsonValue, path: str, *, text_type: str, depth: int = 0) -> JsonValue:
        """Messages, items or content blocks, with a text in the place of what would be fetched."""
        if not isinstance(value, list):
            return value
        if depth > _DEEPEST:
            raise RequestError(f"{path}: content is nested too deeply", field=path)
        return [self._block(block, f"{path}.{index}", text_type, depth) for index, block in enumerate(value)]

    def _block(self, block: JsonValue, path: str, text_type: str, depth: int) -> JsonValue:
        if not isinstance(block, dict):
            return block
        if label := _fetched(block):
            self.findings.append(f"{path} ({label})")
            return {"type": text_type, "text": f"[removed by the gateway: {label}]"}
        inner = {
            name: self._blocks(block[name], f"{path}.{name}", text_type=text_type, depth=depth + 1)
            for name in _NESTED
            if isinstance(block.get(name), list)
        }
        return {**block, **inner} if inner else block


def _fetched(block: Mapping[str, JsonValue]) -> str:
    """What the provider would fetch for a content block; empty = nothing."""
    for name in _MEDIA_FIELDS:
        value = block.get(name)
        address = value.get("url") if isinstance(value, dict) else value
        if isinstance(address, str) and address[:5].lower() != "data:":
            return f"{name.removesuffix('_url')} by URL"
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") in ("url", "file"):
        return f"{block.get('type', 'content')} by {'URL' if source['type'] == 'url' else 'file id'}"
    holders = (block, block.get("file"))
    if any(isinstance(holder, dict) and holder.get("file_id") for holder in holders):
        return "file by file id"
    return ""


def _mend_choice(body: Json, removed: Sequence[Mapping[str, JsonValue]]) -> None:
    """Takes a choice out that names a removed tool, or that has no tools left."""
    if not body["tools"]:
        body.pop("tools")
        body.pop("tool_choice", None)
        body.pop("parallel_tool_calls", None)
        return
    choice = body.get("tool_choice")
    if not isinstance(choice, dict):
        return
    listed = choice.get("tools")
    if isinstance(listed, list):  # allowed_tools
        left = [tool for tool in listed if not any(_names(tool, gone) for gone in removed)]
        body["tool_choice"] = {**choice, "tools": left}
        if left:
            return
    elif not any(_names(choice, gone) for gone in removed):
        return
    body.pop("tool_choice")


def _names(choice: JsonValue, tool: Mapping[str, JsonValue]) -> bool:
    """Whether a choice names the tool, by its type or by its name."""
    if not isinstance(choice, dict):
        return False
    is_same_type = choice.get("type") == tool.get("type")
    label = "server_label"
    if is_same_type:
        return label not in choice or choice[label] == tool.get(label)
    return "name" in tool and choice.get("name") == tool["name"]
