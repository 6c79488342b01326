"""A thread that makes blocking calls for an event loop, which goes on meanwhile."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from threading import Thread
from typing import TypeAlias, TypeVar, cast

ResultT = TypeVar("ResultT")
_Result: TypeAlias = tuple[object, BaseException | None]
"""What a call returned, or what it raised."""


class Worker:
    """One thread for all calls of one caller, in the order in which they are asked for.

    It belongs to the event loop it is made on, and runs in a copy of its maker's context. It is a daemon: a call
    that never returns keeps no process from ending.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        Thread(target=copy_context().run, args=(self._run,), name="upturn-environment", daemon=True).start()

    async def do(self, call: Callable[[], ResultT]) -> ResultT:
        """What the call returns or raises. A caller that is cancelled goes at once; its call is not interrupted."""
        done: asyncio.Future[_Result] = self._loop.create_future()
        self._calls.put(lambda: self._deliver(done, _made(call)))
        result, error = await done
        if error is not None:
            raise error
        return cast(ResultT, result)

    def end(self) -> None:
        """The thread ends after the calls asked for so far."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def _deliver(self, done: asyncio.Future[_Result], result: _Result) -> None:
        def settle() -> None:
            if not done.done():  # else its caller was cancelled
                done.set_result(result)

        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            self._loop.call_soon_threadsafe(settle)


def _made(call: Callable[[], object]) -> _Result:
    try:
        return call(), None
    except BaseException as exc:  # noqa: BLE001  whatever it is, it belongs to who asked
        return None, exc
