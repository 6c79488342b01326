"""An upstream that is a Python function of the user: it gets the request and returns the answer."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from time import perf_counter
from typing import TypeAlias

from upturn.dialects import ModelAnswer, ModelRequest, Text
from upturn.errors import error_text
from upturn.models.upstreams.upstream import (
    BreakerState,
    CallOutcome,
    Exchange,
    Forwarded,
    UpstreamCall,
    UpstreamError,
)
from upturn.models.upstreams.whole_answer import WholeExchange

Answering: TypeAlias = Callable[[ModelRequest], str | ModelAnswer | Awaitable[str | ModelAnswer]]
"""A function that answers a request with text or a whole answer; it may be a coroutine function."""


class FunctionUpstream:
    """Answers calls with a function, which runs in a thread; what a coroutine function returns is awaited here."""

    def __init__(self, function: Answering, model: str) -> None:
        self._function = function
        self._model = model

    @asynccontextmanager
    async def open(self, call: UpstreamCall) -> AsyncIterator[Exchange]:
        """Calls the function; raises UpstreamError for what it raises, and for a result that is no answer."""
        started = perf_counter()
        try:
            result: object = await asyncio.to_thread(self._function, call.request)
            if inspect.isawaitable(result):
                result = await result
        except Exception as exc:  # boundary: a user's function may raise anything
            raise UpstreamError(f"{self._model} raised {error_text(exc)}", kind="protocol") from exc
        if isinstance(result, str):
            result = ModelAnswer("", self._model, (Text(result),), "stop")
        if not isinstance(result, ModelAnswer):
            raise UpstreamError(
                f"{self._model} returned {type(result).__name__}; a str or a ModelAnswer is expected",
                kind="protocol",
            )
        answer = replace(result, id=call.answer_id or result.id)
        outcome = CallOutcome(answer, "", answer.usage, perf_counter() - started)
        yield WholeExchange(call, answer, outcome)

    @property
    def breaker_state(self) -> BreakerState | None:
        """None: a function has no circuit breaker."""
        return None

    async def embed(self, body: bytes) -> Forwarded:  # noqa: ARG002  as in the protocol
        """Raises UpstreamError: functions make no embeddings."""
        raise UpstreamError(
            "functions make no embeddings; send the request to an agent of kind endpoint", kind="status", status=400
        )

    async def close(self) -> None:
        """There is nothing to close."""
