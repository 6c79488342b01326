"""A thread for blocking calls: they run in order, and their results and exceptions reach the caller."""

import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar
from functools import partial

import pytest

from upturn.agents.call_thread import CallThread

CONTEXT: ContextVar[str] = ContextVar("CONTEXT")


def index_and_thread(index: int) -> tuple[int, int]:
    return index, threading.get_ident()


def call_thread() -> CallThread:
    return CallThread("call")


def test_all_calls_run_in_one_other_thread_in_order() -> None:
    async def run_calls() -> list[tuple[int, int]]:
        worker = call_thread()
        try:
            return await asyncio.gather(*(worker.run(partial(index_and_thread, index)) for index in range(5)))
        finally:
            worker.end()

    results = asyncio.run(run_calls())
    assert [index for index, _ in results] == [0, 1, 2, 3, 4]
    (thread,) = {thread for _, thread in results}
    assert thread != threading.get_ident()


def test_the_event_loop_continues_while_a_call_waits() -> None:
    gate = threading.Event()

    async def run_calls() -> bool:
        worker = call_thread()
        waiting = asyncio.create_task(worker.run(lambda: gate.wait(10)))
        for _ in range(3):
            await asyncio.sleep(0)
        gate.set()  # not reached within ten seconds if the call blocks the loop
        worker.end()
        return await waiting

    assert asyncio.run(run_calls())


@pytest.mark.parametrize("error", [OSError("no disk"), SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_an_exception_reaches_its_caller_and_the_next_call_runs(error: BaseException) -> None:
    def fail() -> None:
        raise error

    async def run_calls() -> tuple[BaseException | None, int]:
        worker, caught = call_thread(), None
        try:
            await worker.run(fail)
        except BaseException as exc:  # noqa: BLE001
            caught = exc
        result = await worker.run(lambda: 5)
        worker.end()
        return caught, result

    assert asyncio.run(run_calls()) == (error, 5)


def test_a_cancelled_caller_returns_at_once_and_its_call_finishes() -> None:
    gate, ended = threading.Event(), threading.Event()

    def wait() -> None:
        gate.wait(10)
        ended.set()

    async def run_calls() -> None:
        worker = call_thread()
        caller = asyncio.create_task(worker.run(wait))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert not ended.is_set()
        gate.set()
        assert await worker.run(ended.is_set)  # runs after it; the late result is dropped
        worker.end()

    asyncio.run(run_calls())


def test_calls_run_in_the_context_of_the_constructor() -> None:
    async def run_calls() -> str:
        CONTEXT.set("calm")
        worker = call_thread()
        try:
            return await worker.run(CONTEXT.get)
        finally:
            worker.end()

    assert asyncio.run(run_calls()) == "calm"


def test_the_thread_ends_on_request_and_outlives_its_loop() -> None:
    gate = threading.Event()

    async def abandon() -> None:
        worker = call_thread()
        waiting = asyncio.create_task(worker.run(lambda: gate.wait(10)))
        await asyncio.sleep(0)
        worker.end()
        waiting.cancel()

    before = set(threading.enumerate())
    asyncio.run(abandon())
    (thread,) = set(threading.enumerate()) - before
    gate.set()  # its result is dropped: the loop has ended
    thread.join(10)
    assert not thread.is_alive()


def test_a_hanging_call_does_not_delay_the_exit() -> None:
    program = (
        "import asyncio, threading\n"
        "from upturn.agents.call_thread import CallThread\n"
        "async def main():\n"
        "    await asyncio.wait_for(CallThread('call').run(threading.Event().wait), 0.05)\n"
        "try:\n"
        "    asyncio.run(main())\n"
        "except TimeoutError:\n"
        "    print('left')\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, "left\n", "")


def test_an_interruption_after_the_last_call_ends_the_thread_quietly() -> None:
    async def run_calls() -> None:
        worker = call_thread()
        await worker.run(lambda: None)
        worker.interrupt()
        worker.end()
        worker._thread.join(10)
        assert not worker._thread.is_alive()

    asyncio.run(run_calls())  # an exception in a thread is a warning, and warnings are errors
