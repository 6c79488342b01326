"""A thread for blocking calls, of an environment or an agent, so that the event loop continues meanwhile."""

import asyncio
import ctypes
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from threading import Thread
from typing import TypeAlias, TypeVar, cast

ResultT = TypeVar("ResultT")
_Result: TypeAlias = tuple[object, BaseException | None]
"""A call's return value, or the exception that it raised."""


class CallThread:
    """One thread for all calls of one caller, in order.

    It belongs to the event loop of its constructor and runs in a copy of the constructor's context. It is a daemon:
    a call that never returns does not delay the exit of the process.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=copy_context().run, args=(self._run,), name=name, daemon=True)
        self._thread.start()

    async def run(self, call: Callable[[], ResultT]) -> ResultT:
        """The call's result or exception. A cancelled caller returns at once; its call is not interrupted."""
        done: asyncio.Future[_Result] = self._loop.create_future()
        self._calls.put(lambda: self._deliver(done, _result_of(call)))
        result, error = await done
        if error is not None:
            raise error
        return cast(ResultT, result)

    def end(self) -> None:
        """Ends the thread after the calls queued so far."""
        self._calls.put(None)

    def interrupt(self) -> None:
        """Raises SystemExit in the running call: an endless loop would slow down the process for good.

        Python raises it between two bytecodes, so a call that waits in C code gets it only when the wait is over.
        """
        if self._thread.is_alive():
            thread_id = ctypes.c_ulong(self._thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread_id, ctypes.py_object(SystemExit))

    def _run(self) -> None:
        with suppress(SystemExit):  # of an interruption that came after its call had ended
            while (call := self._calls.get()) is not None:
                call()

    def _deliver(self, done: asyncio.Future[_Result], result: _Result) -> None:
        def settle() -> None:
            if not done.done():  # else its caller was cancelled
                done.set_result(result)

        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(settle)


def _result_of(call: Callable[[], object]) -> _Result:
    try:
        return call(), None
    except BaseException as exc:  # noqa: BLE001  passed on to the caller
        return None, exc


async def call_function(function: Callable[..., ResultT | Awaitable[ResultT]], *arguments: object) -> ResultT:
    """The answer of an agent's function: an async one is called on the event loop, any other in its own thread.

    A call abandoned by a cancelled caller is interrupted. Raises what the function raises; RuntimeError for
    exceptions that would end more than this rollout, such as SystemExit.
    """
    call = getattr(type(function), "__call__", None)  # noqa: B004  an object's may be async too
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
    try:
        if is_async:
            answer = function(*arguments)
        else:
            answer = await _in_thread(lambda: function(*arguments))
        return await answer if inspect.isawaitable(answer) else answer
    except (SystemExit, asyncio.CancelledError) as exc:
        task = asyncio.current_task()
        if isinstance(exc, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        raise RuntimeError(f"the agent function raised {type(exc).__name__}") from exc


async def _in_thread(call: Callable[[], ResultT]) -> ResultT:
    def guarded() -> ResultT:
        try:
            return call()
        except Exception:
            raise
        except BaseException as exc:  # SystemExit, for one, would end more than this rollout
            raise RuntimeError(f"the agent function raised {type(exc).__name__}") from exc

    thread = CallThread("upturn-agent")
    try:
        return await thread.run(guarded)
    except asyncio.CancelledError:
        thread.interrupt()
        raise
    finally:
        thread.end()
