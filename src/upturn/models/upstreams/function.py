"""An upstream that is a Python function of the user: it gets the request and returns the answer."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import TypeAlias, TypeVar

from upturn.dialects import ModelAnswer, ModelRequest, StreamEnd, StreamEvent, StreamStart, Text, TextDelta
from upturn.errors import error_text
from upturn.models.upstreams.answer_events import answer_events
from upturn.models.upstreams.event_exchange import EventExchange
from upturn.models.upstreams.upstream import BreakerState, Exchange, Forwarded, UpstreamCall, UpstreamError

ResultT = TypeVar("ResultT", str, ModelAnswer)
Result: TypeAlias = str | ModelAnswer | AsyncIterator[str]
Answering: TypeAlias = Callable[[ModelRequest], Result | Awaitable[Result]]
"""A function that answers a request with text, a whole answer or text in parts; it may be a coroutine function, or
an asynchronous generator."""


_THREADS = 64
"""Calls of one function that run at the same time; further ones wait."""


class FunctionUpstream:
    """Answers calls with a function, which runs in a thread; what it returns is awaited and iterated here.

    The threads are its own: slow functions must not take those in which the event loop's owner reads and writes.
    """

    def __init__(self, function: Answering, model: str) -> None:
        self._function = function
        self._model = model
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"upturn-{model}")

    @asynccontextmanager
    async def open(self, call: UpstreamCall) -> AsyncIterator[Exchange]:
        """Calls the function; raises UpstreamError for what it raises, and for a result that is no answer."""
        async with aclosing(self._events(call)) as events:
            exchange = EventExchange(call, events)
            await exchange.begin()
            yield exchange

    async def close(self) -> None:
        """Starts no further call; a function that is running ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _events(self, call: UpstreamCall) -> AsyncGenerator[StreamEvent, None]:
        try:
            calling = partial(copy_context().run, self._function, call.request)
            result: object = await asyncio.get_running_loop().run_in_executor(self._threads, calling)
            if inspect.isawaitable(result):
                result = await result
            if isinstance(result, AsyncIterator):
                yield StreamStart(call.answer_id, self._model)
                async for text in result:
                    yield TextDelta(self._checked(text, str))
                yield StreamEnd("stop")
                return
        except UpstreamError:
            raise
        except Exception as exc:  # boundary: a user's function may raise anything
            message = f"{self._model} raised {error_text(exc)}"
            raise UpstreamError(message, kind="protocol", shown=f"{self._model} failed") from exc
        if isinstance(result, str):
            result = ModelAnswer("", self._model, (Text(result),), "stop")
        answer = self._checked(result, ModelAnswer)
        for event in answer_events(replace(answer, id=call.answer_id or answer.id)):
            yield event

    @property
    def breaker_state(self) -> BreakerState | None:
        """None: a function has no circuit breaker."""
        return None

    async def embed(self, body: bytes) -> Forwarded:  # noqa: ARG002  as in the protocol
        """Raises UpstreamError: functions make no embeddings."""
        raise UpstreamError(
            "functions make no embeddings; send the request to an agent of kind endpoint", kind="status", status=400
        )

    def _checked(self, result: object, kind: type[ResultT]) -> ResultT:
        if isinstance(result, kind):
            return result
        expected = "parts of a stream are str" if kind is str else "a str or a ModelAnswer is expected"
        raise UpstreamError(f"{self._model} returned {type(result).__name__}; {expected}", kind="protocol")
