"""Messages between two processes."""

import asyncio
import socket
from typing import Any

from tests.gateway.workers.worker_desk import until
from upturn.gateway.workers import Channel
from upturn.models.upstreams import UpstreamError


async def test_messages_arrive_whole_and_in_order_until_one_end_closes() -> None:
    received: list[Any] = []
    closed: list[str] = []
    ours, theirs = socket.socketpair()
    one = Channel(lambda message: closed.append(f"unexpected {message}"), lambda: closed.append("one"))
    other = Channel(received.append, lambda: closed.append("other"))
    one.send("before it is connected")
    await one.connect(ours)
    await other.connect(theirs)
    large = bytes(range(256)) * 20_000
    sent = ["first", large, b"", {"a": (1, None)}, large[::-1], *range(1_000)]
    for message in sent:
        one.send(message)
    one.close()
    await until(lambda: len(closed) == 2)
    assert received == sent
    one.send("after the end")
    await asyncio.sleep(0)
    assert sorted(closed) == ["one", "other"]


async def test_an_error_of_an_upstream_arrives_with_its_fields() -> None:
    received: list[UpstreamError] = []
    ours, theirs = socket.socketpair()
    one, other = Channel(lambda _: None), Channel(received.append)
    await one.connect(ours)
    await other.connect(theirs)
    one.send(UpstreamError("at 10.0.0.1", kind="status", status=429, retry_after_seconds=7, shown="at …"))
    await until(lambda: bool(received))
    [error] = received
    assert (str(error), error.shown, error.kind, error.status, error.retry_after_seconds) == (
        "at 10.0.0.1",
        "at …",
        "status",
        429,
        7,
    )
    one.close()
    other.close()
