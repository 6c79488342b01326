"""A thread for blocking calls: in order, one at a time, with what they return and raise."""

import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar
from functools import partial

import pytest

from upturn.agents.worker import Worker

MOOD: ContextVar[str] = ContextVar("MOOD")


def place_and_thread(place: int) -> tuple[int, int]:
    return place, threading.get_ident()


def test_all_calls_are_made_in_one_other_thread_in_the_order_they_were_asked_for() -> None:
    async def ask() -> list[tuple[int, int]]:
        worker = Worker()
        try:
            return await asyncio.gather(*(worker.do(partial(place_and_thread, place)) for place in range(5)))
        finally:
            worker.end()

    answers = asyncio.run(ask())
    assert [place for place, _ in answers] == [0, 1, 2, 3, 4]
    (thread,) = {thread for _, thread in answers}
    assert thread != threading.get_ident()


def test_the_event_loop_goes_on_while_a_call_waits() -> None:
    gate = threading.Event()

    async def ask() -> bool:
        worker = Worker()
        waiting = asyncio.create_task(worker.do(lambda: gate.wait(10)))
        for _ in range(3):
            await asyncio.sleep(0)
        gate.set()  # never reached, and False after ten seconds, if the call held up the loop
        worker.end()
        return await waiting

    assert asyncio.run(ask())


@pytest.mark.parametrize("error", [OSError("no disk"), SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_what_a_call_raises_reaches_its_caller_and_the_next_call_is_made(error: BaseException) -> None:
    def fail() -> None:
        raise error

    async def ask() -> tuple[BaseException | None, int]:
        worker, caught = Worker(), None
        try:
            await worker.do(fail)
        except BaseException as exc:  # noqa: BLE001
            caught = exc
        answer = await worker.do(lambda: 5)
        worker.end()
        return caught, answer

    assert asyncio.run(ask()) == (error, 5)


def test_a_cancelled_caller_goes_at_once_and_its_call_is_finished() -> None:
    gate, ended = threading.Event(), threading.Event()

    def wait() -> None:
        gate.wait(10)
        ended.set()

    async def ask() -> None:
        worker = Worker()
        caller = asyncio.create_task(worker.do(wait))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert not ended.is_set()
        gate.set()
        assert await worker.do(ended.is_set)  # the next call comes after it, and the late answer harms nobody
        worker.end()

    asyncio.run(ask())


def test_calls_see_the_context_of_the_worker_s_maker() -> None:
    async def ask() -> str:
        MOOD.set("calm")
        worker = Worker()
        try:
            return await worker.do(MOOD.get)
        finally:
            worker.end()

    assert asyncio.run(ask()) == "calm"


def test_the_thread_ends_when_it_is_told_to_and_outlives_a_loop_that_ended() -> None:
    gate = threading.Event()

    async def leave() -> None:
        worker = Worker()
        waiting = asyncio.create_task(worker.do(lambda: gate.wait(10)))
        await asyncio.sleep(0)
        worker.end()
        waiting.cancel()

    before = set(threading.enumerate())
    asyncio.run(leave())
    (thread,) = set(threading.enumerate()) - before
    gate.set()  # its answer finds no loop
    thread.join(10)
    assert not thread.is_alive()


def test_a_call_that_never_returns_keeps_no_process_from_ending() -> None:
    program = (
        "import asyncio, threading\n"
        "from upturn.agents.worker import Worker\n"
        "async def main():\n"
        "    await asyncio.wait_for(Worker().do(threading.Event().wait), 0.05)\n"
        "try:\n"
        "    asyncio.run(main())\n"
        "except TimeoutError:\n"
        "    print('left')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")
