"""Requests over kept connections: framing of responses, reuse, breaks, and what is refused."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.models.upstreams.raw_server import Behaviour, Hangup, RawServer, Visit, raw_server
from upturn.errors import ModelError
from upturn.models.upstreams.connection import BrokenResponseError, Connections, Response, UnreachableError

OK = b"HTTP/1.1 200 OK\r\n"


async def whole(response: Response) -> bytes:
    """The rest of a response, which is then closed."""
    parts = []
    while part := await response.read():
        parts.append(part)
    response.close()
    return b"".join(parts)


def run(behaviour: Behaviour, ask: Callable[[Connections, RawServer], Awaitable[None]]) -> None:
    """Runs requests against a server with this behaviour."""

    async def serve() -> None:
        async with raw_server(behaviour) as server:
            connections = Connections(server.url, connect_seconds=5.0)
            await ask(connections, server)
            connections.close()

    asyncio.run(serve())


def test_a_connection_is_used_again_after_a_whole_response() -> None:
    async def answer(visit: Visit) -> None:
        await visit.send(OK + b"content-length: 1\r\n\r\n" + str(visit.number).encode())

    async def ask(connections: Connections, server: RawServer) -> None:
        for number in range(3):
            response = await connections.post("/x", {"x-name": "value"}, b"body")
            assert (response.status, await whole(response)) == (200, str(number).encode())
            response.close()  # a second time, which must not end the next request
        assert server.connections == 1
        assert server.visits[2].body == b"body"
        assert server.visits[2].headers["x-name"] == "value"

    run(answer, ask)


def test_a_connection_is_not_used_again_if_the_server_says_so_or_a_response_is_left_early() -> None:
    async def answer(visit: Visit) -> None:
        if visit.number == 0:
            await visit.send(OK + b"connection: close\r\ncontent-length: 2\r\n\r\nok")
        else:
            await visit.send(OK + b"content-length: 5\r\n\r\nok")

    async def ask(connections: Connections, server: RawServer) -> None:
        await whole(await connections.post("/", {}, b""))
        for _ in range(2):
            response = await connections.post("/", {}, b"")
            assert await response.read() == b"ok"
            assert not response.is_over
            response.close()
        assert server.connections == 3

    run(answer, ask)


@pytest.mark.parametrize(
    ("content", "body"),
    [
        (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK + b"content-length: 2\r\n\r\nok", b"ok"),
        (OK + b"transfer-encoding: chunked\r\n\r\n1\r\no\r\n1;x=y\r\nk\r\n0\r\n\r\n", b"ok"),
        (OK + b"\r\nok", b"ok"),  # without a length, the connection's end is that of the body
        (OK + b"content-length: 0\r\n\r\n", b""),
    ],
)
def test_the_body_is_the_same_in_every_framing(content: bytes, body: bytes) -> None:
    async def answer(visit: Visit) -> None:
        await visit.send(content)
        raise Hangup

    async def ask(connections: Connections, _server: RawServer) -> None:
        response = await connections.post("/", {}, b"")
        assert (response.status, await whole(response)) == (200, body)

    run(answer, ask)


def test_a_second_response_to_one_request_is_left_out_and_ends_the_connection() -> None:
    async def answer(visit: Visit) -> None:
        await visit.send(OK + b"content-length: 2\r\n\r\nok" + OK + b"content-length: 4\r\n\r\nevil")

    async def ask(connections: Connections, server: RawServer) -> None:
        for _ in range(2):
            response = await connections.post("/", {}, b"")
            assert (response.status, await whole(response)) == (200, b"ok")
        assert server.connections == 2

    run(answer, ask)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "closed the connection too early"),
        (b"HTTP/1.1 200 O", "closed the connection too early"),
        (OK + b"content-length: 9\r\n\r\nok", "closed the connection too early"),
        (OK + b"transfer-encoding: chunked\r\n\r\n5\r\nok", "closed the connection too early"),
        (OK + b"transfer-encoding: chunked\r\n\r\nzz\r\nok", "is not HTTP"),
        (b"SSH-2.0-server\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "is not HTTP"),
    ],
)
def test_a_response_without_its_end_is_broken(content: bytes, message: str) -> None:
    async def answer(visit: Visit) -> None:
        await visit.send(content)
        raise Hangup

    async def ask(connections: Connections, _server: RawServer) -> None:
        with pytest.raises(BrokenResponseError, match=message):
            await whole(await connections.post("/", {}, b""))

    run(answer, ask)


def test_a_slow_reader_bounds_what_is_kept_in_memory() -> None:
    part, parts = b"x" * 65_536, 200
    sent = 0

    async def answer(visit: Visit) -> None:
        nonlocal sent
        await visit.send(OK + b"content-length: %d\r\n\r\n" % (len(part) * parts))
        for _ in range(parts):
            await visit.send(part)
            sent += 1

    async def ask(connections: Connections, _server: RawServer) -> None:
        response = await connections.post("/", {}, b"")
        before = -1
        while before != sent:  # until the server cannot send any more
            before = sent
            for _ in range(50):
                await asyncio.sleep(0)
        assert sent < parts
        assert len(await whole(response)) == len(part) * parts

    run(answer, ask)


def test_a_cancelled_request_closes_its_connection() -> None:
    async def answer(visit: Visit) -> None:
        await visit.departure()
        left.set()

    left = asyncio.Event()

    async def ask(connections: Connections, server: RawServer) -> None:
        task = asyncio.ensure_future(connections.post("/", {}, b""))
        while not server.visits:
            await asyncio.sleep(0)
        task.cancel()
        async with asyncio.timeout(10):
            await left.wait()

    run(answer, ask)


def test_what_cannot_be_reached_and_what_is_no_header_is_an_error() -> None:
    async def answer(_visit: Visit) -> None:
        raise Hangup

    async def ask(connections: Connections, server: RawServer) -> None:
        with pytest.raises(ModelError, match="line break"):
            await connections.post("/", {"authorization": "Bearer a\r\nx-evil: b"}, b"")
        assert server.visits == []
        with pytest.raises(UnreachableError, match="refused"):
            await Connections("http://127.0.0.1:1/v1", connect_seconds=5.0).post("/", {}, b"")

    run(answer, ask)
