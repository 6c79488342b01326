"""A thread for blocking calls: in order, one at a time, with what they return and raise."""

import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar
from functools import partial

import pytest

from upturn.agents.environment_thread import EnvironmentThread

MOOD: ContextVar[str] = ContextVar("MOOD")


def place_and_thread(place: int) -> tuple[int, int]:
    return place, threading.get_ident()


def test_all_calls_run_in_one_other_thread_in_order() -> None:
    async def ask() -> list[tuple[int, int]]:
        worker = EnvironmentThread()
        try:
            return await asyncio.gather(*(worker.run(partial(place_and_thread, place)) for place in range(5)))
        finally:
            worker.end()

    answers = asyncio.run(ask())
    assert [place for place, _ in answers] == [0, 1, 2, 3, 4]
    (thread,) = {thread for _, thread in answers}
    assert thread != threading.get_ident()


def test_the_event_loop_continues_while_a_call_waits() -> None:
    gate = threading.Event()

    async def ask() -> bool:
        worker = EnvironmentThread()
        waiting = asyncio.create_task(worker.run(lambda: gate.wait(10)))
        for _ in range(3):
            await asyncio.sleep(0)
        gate.set()  # never reached, and False after ten seconds, if the call held up the loop
        worker.end()
        return await waiting

    assert asyncio.run(ask())


@pytest.mark.parametrize("error", [OSError("no disk"), SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_an_exception_reaches_its_caller_and_the_next_call_runs(error: BaseException) -> None:
    def fail() -> None:
        raise error

    async def ask() -> tuple[BaseException | None, int]:
        worker, caught = EnvironmentThread(), None
        try:
            await worker.run(fail)
        except BaseException as exc:  # noqa: BLE001
            caught = exc
        answer = await worker.run(lambda: 5)
        worker.end()
        return caught, answer

    assert asyncio.run(ask()) == (error, 5)


def test_a_cancelled_caller_returns_at_once_and_its_call_finishes() -> None:
    gate, ended = threading.Event(), threading.Event()

    def wait() -> None:
        gate.wait(10)
        ended.set()

    async def ask() -> None:
        worker = EnvironmentThread()
        caller = asyncio.create_task(worker.run(wait))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert not ended.is_set()
        gate.set()
        assert await worker.run(ended.is_set)  # the next call comes after it, and the late answer harms nobody
        worker.end()

    asyncio.run(ask())


def test_calls_run_in_the_context_of_the_constructor() -> None:
    async def ask() -> str:
        MOOD.set("calm")
        worker = EnvironmentThread()
        try:
            return await worker.run(MOOD.get)
        finally:
            worker.end()

    assert asyncio.run(ask()) == "calm"


def test_the_thread_ends_on_request_and_outlives_its_loop() -> None:
    gate = threading.Event()

    async def leave() -> None:
        worker = EnvironmentThread()
        waiting = asyncio.create_task(worker.run(lambda: gate.wait(10)))
        await asyncio.sleep(0)
        worker.end()
        waiting.cancel()

    before = set(threading.enumerate())
    asyncio.run(leave())
    (thread,) = set(threading.enumerate()) - before
    gate.set()  # its answer finds no loop
    thread.join(10)
    assert not thread.is_alive()


def test_a_hanging_call_does_not_delay_the_exit() -> None:
    program = (
        "import asyncio, threading\n"
        "from upturn.agents.environment_thread import EnvironmentThread\n"
        "async def main():\n"
        "    await asyncio.wait_for(EnvironmentThread().run(threading.Event().wait), 0.05)\n"
        "try:\n"
        "    asyncio.run(main())\n"
        "except TimeoutError:\n"
        "    print('left')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")
