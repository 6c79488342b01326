"""Digests of conversations, by which a call is recognised as the continuation of an earlier one.

Clients send the whole conversation with each call, and serialise it anew. So digests cover what was said: roles,
texts, images, names and parsed arguments of tool calls, and results. They leave out thoughts, which many clients
drop or put before the text, ids of tool calls, white space around texts and the notation of numbers.
"""

import json
import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b

from upturn.dialects.conversation import (
    Image,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from upturn.records import JsonValue

_SIZE = 16
"""Bytes of a digest. Digests are keyed by tenant and API key, so that a collision needs one client's own texts."""
_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)


def conversation_digests(messages: Sequence[Message], scope: str) -> list[str]:
    """Returns for each message the digest of the conversation up to and including it.

    ``scope`` is part of every digest: equal conversations of different scopes differ.
    """
    digests: list[str] = []
    head = scope.encode()
    for message in messages:
        head = _extended(head, message)
        digests.append(head.hex())
    return digests


def answered_digest(last: str, answer: Sequence[Part]) -> str:
    """Returns the digest of the conversation with digest ``last`` after this answer."""
    return _extended(bytes.fromhex(last), Message("assistant", tuple(answer))).hex()


def message_digest(message: Message) -> str:
    """Returns the digest of one message, wherever it stands."""
    return _extended(b"", message).hex()


def tools_digest(tools: Sequence[ToolDefinition]) -> str:
    """Returns the digest of the tools, in any order and with their keys in any order; empty = there are none."""
    if not tools:
        return ""
    written = sorted(
        json.dumps([tool.name, tool.description.strip(), tool.parameters], sort_keys=True, default=dict)
        for tool in tools
    )
    return blake2b(json.dumps(written).encode(), digest_size=_SIZE).hexdigest()


def _extended(head: bytes, message: Message) -> bytes:
    texts: list[str] = []
    parts: list[bytes] = []
    for part in message.parts:
        if isinstance(part, Text):
            texts.append(part.text)
        elif not isinstance(part, Reasoning):
            parts += _part(part)
    said = "".join(texts)
    if message.role == "assistant":
        said = _THOUGHT.sub("", said, count=1) if _THOUGHT.match(said) else said
    text = said.strip().encode(errors="surrogatepass")
    pieces = [head]
    for piece in (message.role.encode(), text, *parts):
        pieces += (len(piece).to_bytes(8, "big"), piece)
    return blake2b(b"".join(pieces), digest_size=_SIZE).digest()


def _part(part: Part) -> Iterator[bytes]:
    match part:
        case ToolCall():
            yield f"call {part.name}".encode(errors="surrogatepass")
            yield _canonical(part.arguments).encode(errors="surrogatepass")
        case ToolResult():
            text = "".join(member.text for member in part.parts if isinstance(member, Text))
            kind = "error" if part.is_error else "result"
            yield f"{kind} {text.strip()}".encode(errors="surrogatepass")
            for member in part.parts:
                if isinstance(member, Image):
                    yield from _part(member)
        case Image():
            yield f"image {part.url}{part.data}".encode()
        case Text() | Reasoning():
            pass


def _canonical(arguments: str) -> str:
    """Returns JSON text with sorted keys and whole numbers as such; text that is not JSON without outer blanks."""
    try:
        parsed = json.loads(arguments or "{}", parse_float=_number)
        return json.dumps(parsed, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return arguments.strip()


def _number(text: str) -> JsonValue:
    """Returns 1 for ``1.0``: not every language keeps the difference."""
    value = float(text)
    return int(value) if value.is_integer() else value
