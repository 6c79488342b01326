"""Tokens of calls as servers report them, and estimates by length where they do not."""

from collections.abc import Sequence
from dataclasses import replace

from upturn.dialects.conversation import (
    Message,
    ModelRequest,
    Part,
    Reasoning,
    Text,
    TokenUsage,
    Toolbox,
    ToolCall,
    ToolResult,
)
from upturn.records import fields_json

BYTES_A_TOKEN = 4
"""English text has about four bytes a token."""
MOST_TOKENS = 10**12
"""Largest number of tokens that a server is believed to have used in one call."""


def credible_usage(reported: TokenUsage | None) -> TokenUsage:
    """Returns what a server reports; zeros where it reports nothing, or impossible numbers."""
    if reported is None:
        return TokenUsage()
    is_credible = (
        min(reported.cached_input, reported.output, reported.cache_write_1h) >= 0
        and reported.cache_write_1h <= reported.cache_write
        and reported.cached_input + reported.cache_write <= reported.input
        and max(reported.input, reported.output) <= MOST_TOKENS
    )
    return reported if is_credible else TokenUsage()


def estimated_usage(reported: TokenUsage, request: ModelRequest, parts: Sequence[Part]) -> TokenUsage:
    """Returns the tokens of a call whose server has reported none, or broken off before it reported all."""
    return replace(
        reported,
        input=reported.input or estimated_tokens(request),
        output=max(reported.output, estimated_answer_tokens(parts)),
    )


def message_text(message: Message) -> str:
    """Returns the text of a message, also of results in it."""
    texts: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            texts.append(part.text)
        elif isinstance(part, ToolResult):
            texts += [member.text for member in part.parts if isinstance(member, Text)]
    return "\n".join(texts)


def estimated_tokens(request: ModelRequest) -> int:
    """Returns about how many tokens the conversation and its tools have."""
    size = sum(len(message_text(message).encode(errors="replace")) for message in request.messages)
    if request.tools:
        size += len(fields_json(Toolbox(request.tools)))
    return -(-size // BYTES_A_TOKEN)


def estimated_answer_tokens(parts: Sequence[Part]) -> int:
    """Returns about how many tokens the texts, thoughts and calls of an answer have."""
    size = 0
    for part in parts:
        match part:
            case Text() | Reasoning():
                size += len(part.text.encode(errors="replace"))
            case ToolCall():
                size += len(f"{part.name}{part.arguments}".encode(errors="replace"))
            case _:
                pass
    return -(-size // BYTES_A_TOKEN)
