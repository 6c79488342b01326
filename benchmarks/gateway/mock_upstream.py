"""An upstream that answers every chat completion at once with the same answer: ``python -m … PORT DELAY_MS PARTS``.

A protocol without a framework, so that it needs little of the two cores that all three processes share.
"""

import asyncio
import json
import sys
from typing import cast

ANSWER = json.dumps(
    {
        "id": "chatcmpl-0123456789",
        "object": "chat.completion",
        "created": 1,
        "model": "mock",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "The answer is forty-two, as always. " * 4},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 120, "completion_tokens": 36, "total_tokens": 156},
    },
    separators=(",", ":"),
).encode()
HEAD = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(ANSWER)}\r\n\r\n".encode()
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def stream_events(parts: int) -> list[bytes]:
    """The events of a stream of so many parts, each in a chunk of the transfer encoding."""
    head = {"id": "chatcmpl-0123456789", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
    deltas: list[tuple[dict[str, object], str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": f"word{number} "}, None) for number in range(parts)]
    deltas.append(({}, "stop"))
    bodies = [
        json.dumps({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        for delta, finish in deltas
    ]
    usage = {"prompt_tokens": 120, "completion_tokens": parts, "total_tokens": 120 + parts}
    bodies += [json.dumps({**head, "choices": [], "usage": usage}), "[DONE]"]
    events = [f"data: {body}\n\n".encode() for body in bodies]
    return [f"{len(event):x}\r\n".encode() + event + b"\r\n" for event in events]


class Mock(asyncio.Protocol):
    """One connection."""

    def __init__(self, delay_seconds: float, events: bytes) -> None:
        """``events``: of a stream."""
        self._delay = delay_seconds
        self._events = events
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        """Answers every request that is complete."""
        self._rest += data
        while (end := self._rest.find(b"\r\n\r\n")) >= 0:
            head = self._rest[:end].lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or b"0")
            if len(self._rest) < end + 4 + length:
                return
            body, self._rest = self._rest[end + 4 : end + 4 + length], self._rest[end + 4 + length :]
            asyncio.get_running_loop().call_later(
                self._delay, self._answer, b'"stream":true' in body.replace(b" ", b"")
            )

    def _answer(self, is_streamed: bool) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if is_streamed:
            self._transport.write(STREAM_HEAD + self._events + b"0\r\n\r\n")
        else:
            self._transport.write(HEAD + ANSWER)


async def serve(port: int, delay_seconds: float, parts: int) -> None:
    """Serves until the process ends."""
    events = b"".join(stream_events(parts))
    server = await asyncio.get_running_loop().create_server(lambda: Mock(delay_seconds, events), "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(int(sys.argv[1]), float(sys.argv[2]) / 1_000.0, int(sys.argv[3])))
