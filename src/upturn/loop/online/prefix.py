"""Digests of conversations, by which a call is recognised as the continuation of an earlier one.

Clients send the whole conversation with each call, and serialise it anew. So digests cover what was said: roles,
texts, images, names and parsed arguments of tool calls, and results. They leave out thoughts, which many clients
drop, ids of tool calls and white space around texts.
"""

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b

from upturn.dialects import Image, Message, Part, Reasoning, Text, ToolCall, ToolResult

_SIZE = 16
"""Bytes of a digest. Digests are keyed by tenant and API key, so that a collision needs one client's own texts."""


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


def _extended(head: bytes, message: Message) -> bytes:
    texts: list[str] = []
    parts: list[bytes] = []
    for part in message.parts:
        if isinstance(part, Text):
            texts.append(part.text)
        elif not isinstance(part, Reasoning):
            parts += _part(part)
    text = "".join(texts).strip().encode(errors="surrogatepass")
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
            yield f"result {text.strip()}".encode(errors="surrogatepass")
            for member in part.parts:
                if isinstance(member, Image):
                    yield from _part(member)
        case Image():
            yield f"image {part.url}{part.data}".encode()
        case Text() | Reasoning():
            pass


def _canonical(arguments: str) -> str:
    """Returns JSON text with sorted keys; text that is not JSON unchanged."""
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return arguments
