"""Work for a client that may leave at any time."""

import asyncio
from collections.abc import Callable

import pytest
from starlette.types import Message

from upturn.gateway.http import while_connected


class Client:
    """A client that leaves when it is told to."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}


class Work:
    """Ends when it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.result = ""

    async def __call__(self, error: Exception | None = None) -> None:
        self.result = "begun"
        try:
            await self.go_on.wait()
            if error is not None:
                raise error
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # it may need time to end
            self.result = "cancelled"
            raise
        self.result = "done"


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0)


async def test_work_for_a_client_that_stays_is_done() -> None:
    client, work = Client(), Work()
    work.go_on.set()
    await while_connected(client.receive, work(), is_over=lambda: False)
    assert work.result == "done"
    assert len(asyncio.all_tasks()) == 2, "this one, and the one that watched for the departure"
    await _until(lambda: len(asyncio.all_tasks()) == 1)


async def test_work_for_a_client_that_leaves_is_cancelled_and_has_ended() -> None:
    client, work = Client(), Work()
    serving = asyncio.ensure_future(while_connected(client.receive, work(), is_over=lambda: False))
    await _until(lambda: work.result == "begun")
    client.left.set()
    with pytest.raises(ConnectionError, match="the client left before the answer's end"):
        await serving
    assert work.result == "cancelled"


async def test_work_goes_on_if_the_client_leaves_once_it_has_its_answer() -> None:
    client, work = Client(), Work()
    serving = asyncio.ensure_future(while_connected(client.receive, work(), is_over=lambda: True))
    await _until(lambda: work.result == "begun")
    client.left.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert work.result == "begun"
    work.go_on.set()
    await serving
    assert work.result == "done"


async def test_an_error_of_the_work_is_raised_and_a_later_departure_cancels_nothing() -> None:
    client, work = Client(), Work()
    work.go_on.set()
    with pytest.raises(ValueError, match="broken"):
        await while_connected(client.receive, work(ValueError("broken")), is_over=lambda: False)
    client.left.set()
    for _ in range(5):
        await asyncio.sleep(0)  # a cancellation would be raised here


async def test_a_task_that_is_cancelled_by_others_stays_cancelled() -> None:
    client, work = Client(), Work()
    serving = asyncio.ensure_future(while_connected(client.receive, work(), is_over=lambda: False))
    await _until(lambda: work.result == "begun")
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert work.result == "cancelled"
