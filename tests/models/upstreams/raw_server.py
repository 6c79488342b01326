"""An HTTP server for tests whose bytes a test writes itself, with whatever it does wrong."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from upturn.config import UpstreamConfig
from upturn.dialects import dialect_of
from upturn.models.upstreams import Chunk, Endpoint, EndpointUpstream, UpstreamCall

SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
Behaviour = Callable[["Visit"], Awaitable[None]]


@dataclass
class Visit:
    """One request, and the connection to write the response to."""

    number: int
    """From 0, over all connections."""
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, content: bytes) -> None:
        """Sends raw bytes."""
        self.writer.write(content)
        await self.writer.drain()

    async def part(self, content: bytes) -> None:
        """Sends one part of a chunked body; empty = its end."""
        await self.send(b"%x\r\n%s\r\n" % (len(content), content))

    async def json(self, body: Any, status: str = "200 OK", *headers: str) -> None:
        """Sends a whole response."""
        content = json.dumps(body).encode()
        head = "".join(f"{header}\r\n" for header in headers)
        await self.send(f"HTTP/1.1 {status}\r\n{head}content-length: {len(content)}\r\n\r\n".encode() + content)

    async def departure(self) -> None:
        """Waits until the client has left."""
        while await self.reader.read(1000):
            pass


@dataclass
class RawServer:
    """The server's address and what it has seen."""

    url: str = ""
    visits: list[Visit] = field(default_factory=list)
    connections: int = 0


@asynccontextmanager
async def raw_server(behaviour: Behaviour) -> AsyncIterator[RawServer]:
    """A server in the block; a behaviour that returns keeps the connection, one that raises closes it."""
    server, tasks = RawServer(), set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {
                    name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)
                }
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                visit = Visit(len(server.visits), {"": head[0], **headers}, body, reader, writer)
                server.visits.append(visit)
                await behaviour(visit)
        except (asyncio.IncompleteReadError, ConnectionError, Hangup):
            pass
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Hangup(Exception):  # noqa: N818  not an error
    """Raised by a behaviour to close the connection."""


def call_of(
    dialect: str = "chat", *, is_streamed: bool = False, answer_id: str = "", **fields: Any
) -> UpstreamCall:
    """A call with the message "hi"."""
    content: dict[str, Any] = {"input": "hi"} if dialect == "responses" else {"messages": [_HI]}
    if dialect == "messages":
        content["max_tokens"] = 9
    body = json.dumps({"model": "route", **content, "stream": is_streamed, **fields}).encode()
    form = dialect_of(dialect)
    return UpstreamCall(body, form.read_request(body), form, answer_id=answer_id)


_HI = {"role": "user", "content": "hi"}


@asynccontextmanager
async def upstream_at(
    server: RawServer, settings: UpstreamConfig, key: str = ""
) -> AsyncIterator[EndpointUpstream]:
    """An upstream for the server, closed after the block."""
    upstream = EndpointUpstream(Endpoint(server.url, "theirs", settings, key))
    try:
        yield upstream
    finally:
        await upstream.close()


async def chunks_of(upstream: EndpointUpstream, call: UpstreamCall) -> tuple[list[Chunk], Any]:
    """All chunks of the answer, and the outcome as it was at the first chunk that ends it."""
    chunks, outcome = [], None
    async with upstream.open(call) as exchange:
        async for chunk in exchange.chunks():
            if chunk.is_end and outcome is None:
                outcome = exchange.outcome
            chunks.append(chunk)
    return chunks, outcome


def chat_answer(text: str = "hello") -> dict[str, Any]:
    """A whole answer of chat completions."""
    return {
        "id": "theirs-1",
        "object": "chat.completion",
        "created": 1,
        "model": "theirs",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


def chat_chunk(text: str = "", finish: str | None = None, **fields: Any) -> bytes:
    """One event of a stream of chat completions."""
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}
    body = {"id": "theirs-1", "object": "chat.completion.chunk", "model": "theirs", "choices": [choice], **fields}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


CHAT_USAGE = chat_chunk(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5})
CHAT_END = chat_chunk(finish="stop") + CHAT_USAGE + b"data: [DONE]\n\n"
