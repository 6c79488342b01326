"""Messages of requests in the form that a chat template takes them, control tokens in their texts marked.

Where the template has no system role, a system prompt goes before the next message of the user; where it writes no
calls, a call is text. Not covered: images.
"""

import json
from collections.abc import Sequence
from typing import Any

from upturn.dialects import (
    Image,
    Message,
    Reasoning,
    RequestError,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    arguments_schema,
    json_object,
)
from upturn.models.call import value_text
from upturn.models.chat_template import THOUGHT, THOUGHT_END
from upturn.models.template import ChatTemplate, Messages
from upturn.models.template import Message as Line
from upturn.models.template_profile import TemplateProfile


class TemplateMessages:
    """Writes messages for one template."""

    def __init__(self, template: ChatTemplate, profile: TemplateProfile) -> None:
        self._template = template
        self._profile = profile

    def lines(self, messages: Sequence[Message]) -> list[Messages]:
        """The template's messages for each message. Raises RequestError for images."""
        every: list[Messages] = []
        pending: list[str] = []
        """System prompts for the next message of the user."""
        for message in messages:
            if message.role == "system" and not self._profile.has_system_role:
                pending.append(plain_text(message))
                every.append([])
                continue
            lines = self._lines(message)
            if pending and message.role == "user":
                lines[0]["content"] = "\n\n".join((*pending, lines[0]["content"]))
            elif pending:
                lines.insert(0, {"role": "user", "content": "\n\n".join(pending)})
            pending = []
            but = (THOUGHT, THOUGHT_END) if message.role == "assistant" else ()
            every.append([self._template.mark(line, but=but) for line in lines])
        return every

    def tools(self, tools: Sequence[ToolDefinition]) -> list[Line]:
        """The tools that the template lists."""
        if not self._profile.lists_tools:
            return []
        return [self._template.mark(_tool(tool)) for tool in tools]

    def _lines(self, message: Message) -> Messages:
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        if results:
            role = "tool" if self._profile.has_tool_role else "user"
            return [
                {"role": role, "tool_call_id": part.call_id, "content": _text(part.parts, "messages")}
                for part in results
            ]
        line: Line = {"role": message.role, "content": plain_text(message)}
        thoughts = [part.text for part in message.parts if isinstance(part, Reasoning)]
        if thoughts and self._profile.thought_key == "reasoning_content":
            line["reasoning_content"] = "".join(thoughts)
        elif thoughts:
            line["content"] = f"{THOUGHT}\n{''.join(thoughts)}\n{THOUGHT_END}\n\n{line['content']}"
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        if calls and not self._profile.writes_calls:
            written = [json.dumps(self._function(call), ensure_ascii=False) for call in calls]
            line["content"] = "\n".join(filter(None, (line["content"], *written)))
        elif calls:
            line["tool_calls"] = [
                {"id": call.id, "type": "function", "function": self._function(call)} for call in calls
            ]
        return [line]

    def _function(self, call: ToolCall) -> Line:
        arguments: Any = json_object(call.arguments or "{}")  # Any: a JSON border
        if arguments is None:
            return {"name": call.name, "arguments": call.arguments}
        if not self._profile.calls.has_types:
            arguments = {key: value_text(value) for key, value in arguments.items()}
        if self._profile.has_text_arguments:
            arguments = json.dumps(arguments, ensure_ascii=False)
        return {"name": call.name, "arguments": arguments}


def plain_text(message: Message) -> str:
    """The text of a message; raises RequestError for images."""
    return _text(message.parts, "messages")


def _text(parts: Sequence[object], field: str) -> str:
    if any(isinstance(part, Image) for part in parts):
        raise RequestError("this model reads no images", field=field)
    return "".join(part.text for part in parts if isinstance(part, Text))


def _tool(tool: ToolDefinition) -> Line:
    function = {"name": tool.name, "description": tool.description, "parameters": arguments_schema(tool)}
    return {"type": "function", "function": function}
