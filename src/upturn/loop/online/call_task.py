"""The task of a model call, for the router. It is not stored: the call and its decision are."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from upturn.dialects import Image, Message, ModelRequest, Text, ToolResult
from upturn.records import MODEL_CALL, JsonValue, Task

GENERAL = "general"
"""The family of calls that name none and match no rule."""
_BYTES_A_TOKEN = 4
"""English text has about four bytes a token; it only sorts calls into short and long ones."""
_LONGEST_INSTRUCTION = 4_000
"""Characters of the last user message that are used as features of a call."""


def call_task(
    request: ModelRequest,
    call: str,
    *,
    tenant: str,
    episode: str,
    route: str,
    family: str = "",
    guess: Callable[[Task], str] = lambda _: GENERAL,
) -> Task:
    """Returns the task of a call. ``family``: the client's; empty = ``guess`` of the task without a family."""
    task = Task(
        id=call,
        instruction=last_instruction(request)[:_LONGEST_INSTRUCTION],
        family=family or GENERAL,
        environment=MODEL_CALL,
        tenant=tenant,
        episode=episode,
        context=_context(request, route, is_guess=not family),
    )
    if family:
        return task
    return replace(task, family=guess(task))


def last_instruction(request: ModelRequest) -> str:
    """Returns the text of the last message of the user; empty = there is none."""
    for message in reversed(request.messages):
        if message.role == "user":
            return message_text(message)
    return ""


def message_text(message: Message) -> str:
    """Returns the text of a message, also of results in it."""
    texts: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            texts.append(part.text)
        elif isinstance(part, ToolResult):
            texts += [member.text for member in part.parts if isinstance(member, Text)]
    return "\n".join(texts)


def _context(request: ModelRequest, route: str, *, is_guess: bool) -> Mapping[str, JsonValue]:
    size = sum(len(message_text(message)) for message in request.messages)
    return {
        "route": route,
        "is_guess": is_guess,
        "tokens": size // _BYTES_A_TOKEN,
        "tools": len(request.tools),
        "turns": sum(message.role == "assistant" for message in request.messages),
        "has_images": any(isinstance(part, Image) for message in request.messages for part in message.parts),
        "has_schema": request.output.kind != "text",
    }
