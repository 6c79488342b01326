"""A second attempt at a call whose answer does not begin in time: the first to answer is used, the other one ends.

As gRPC's hedging (proposal A6, with two attempts) and Envoy's ``hedge_on_per_try_timeout``: a refusal of the
request itself ends both attempts, other failures only the attempt that failed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from upturn.models.upstreams.upstream import Hedge, UpstreamError

OpenedT = TypeVar("OpenedT")


async def raced(
    first: Coroutine[Any, Any, OpenedT],
    delay: Coroutine[Any, Any, None],
    second: Callable[[], Coroutine[Any, Any, OpenedT] | None],
    *,
    hedge: Hedge,
    discard: Callable[[OpenedT], Awaitable[None]],
) -> OpenedT:
    """Returns the first answer, after any other attempt has ended.

    ``second``: the other attempt, called if ``delay`` ends before ``first``; None = it is not allowed now.
    ``discard``: closes an answer that came at the same time as the one that is returned. Raises the error of the
    attempt that failed last, or one that refuses the request.
    """
    attempts, timer = [asyncio.ensure_future(first)], asyncio.ensure_future(delay)
    answered: asyncio.Task[OpenedT] | None = None
    try:
        await asyncio.wait([attempts[0], timer], return_when=asyncio.FIRST_COMPLETED)
        if not attempts[0].done() and (other := second()) is not None:
            attempts.append(asyncio.ensure_future(other))
            hedge.answered_by, hedge.unanswered = "none", 1
        answered = await _answered(attempts, hedge)
        return answered.result()
    finally:
        others = [attempt for attempt in attempts if attempt is not answered]
        for task in (timer, *others):
            task.cancel()
        for ended in await asyncio.gather(*others, return_exceptions=True):
            if not isinstance(ended, BaseException):
                await discard(ended)


async def _answered(attempts: list[asyncio.Task[OpenedT]], hedge: Hedge) -> asyncio.Task[OpenedT]:
    """Returns the attempt that answers first; of two at the same time, the one that began first."""
    waiting = set(attempts)
    while True:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        errors = {attempt: attempt.exception() for attempt in attempts if attempt in done}
        if answered := [attempt for attempt, error in errors.items() if error is None]:
            if len(attempts) > 1:
                hedge.answered_by = "first" if answered[0] is attempts[0] else "second"
                hedge.unanswered = len(waiting) + len(answered) - 1
            return answered[0]
        failed = [error for error in errors.values() if error is not None]
        hedge.unanswered = 0  # what is left is the call itself
        is_refused = any(isinstance(error, UpstreamError) and error.is_fault_of_request for error in failed)
        if is_refused or not waiting:
            raise failed[-1]
