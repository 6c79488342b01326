"""A thread that calls a blocking environment, so that the event loop continues meanwhile."""

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


class EnvironmentThread:
    """One thread for all calls of one caller, in order.

    It belongs to the event loop of its constructor and runs in a copy of the constructor's context. It is a daemon:
    a call that never returns does not delay the exit of the process.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        Thread(target=copy_context().run, args=(self._run,), name="upturn-environment", daemon=True).start()

    async def run(self, call: Callable[[], ResultT]) -> ResultT:
        """The call's result or exception. A cancelled caller returns at once; its call is not interrupted."""
        done: asyncio.Future[_Result] = self._loop.create_future()
        self._calls.put(lambda: self._deliver(done, _outcome(call)))
        result, error = await done
        if error is not None:
            raise error
        return cast(ResultT, result)

    def end(self) -> None:
        """Ends the thread after the calls queued so far."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def _deliver(self, done: asyncio.Future[_Result], result: _Result) -> None:
        def settle() -> None:
            if not done.done():  # else its caller was cancelled
                done.set_result(result)

        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(settle)


def _outcome(call: Callable[[], object]) -> _Result:
    try:
        return call(), None
    except BaseException as exc:  # noqa: BLE001  passed on to the caller
        return None, exc
