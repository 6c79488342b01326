"""Breaker, retry budget and limit of calls, with a clock that the test moves."""

import asyncio

import pytest

from upturn.models.upstreams import UpstreamError
from upturn.models.upstreams.breaker import Breaker, CallLimit, RetryBudget


class Clock:
    """Time in seconds."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def state_of(breaker: Breaker) -> str:
    """Its state; a function, since a type checker takes an attribute for unchanged."""
    return breaker.state


def test_a_breaker_opens_after_failures_in_a_row_only() -> None:
    clock = Clock()
    breaker = Breaker("m", failures=3, seconds=10, clock=clock)
    for verdict in ("failed", "failed", "answered", "failed", "none", "failed"):
        breaker.admit().report(verdict)
        assert state_of(breaker) == "closed"
    breaker.admit().report("failed")
    assert state_of(breaker) == "open"
    clock.now += 8.5
    with pytest.raises(UpstreamError, match=r"m failed 3 times in a row; calls are refused for 2 s more") as caught:
        breaker.admit()
    assert (caught.value.kind, caught.value.retry_after_seconds) == ("overload", 2)


def test_a_breaker_that_waited_lets_one_call_try() -> None:
    clock = Clock()
    breaker = Breaker("m", failures=1, seconds=10, clock=clock)
    breaker.admit().report("failed")
    clock.now += 10
    assert state_of(breaker) == "half_open"
    probe = breaker.admit()
    with pytest.raises(UpstreamError, match="until the call that tries it now is answered"):
        breaker.admit()
    probe.report("none")  # its client left
    probe = breaker.admit()
    probe.report("failed")
    assert state_of(breaker) == "open"
    clock.now += 10
    probe = breaker.admit()
    probe.report("begun")
    assert state_of(breaker) == "closed"
    probe.report("answered")
    assert state_of(breaker) == "closed"


def test_a_probe_that_breaks_off_after_its_first_token_opens_the_breaker_again() -> None:
    clock = Clock()
    breaker = Breaker("m", failures=3, seconds=10, clock=clock)
    for _ in range(3):
        breaker.admit().report("failed")
    clock.now += 10
    probe = breaker.admit()
    probe.report("begun")
    probe.report("failed")
    assert state_of(breaker) == "open"


@pytest.mark.parametrize("verdict", ["failed", "answered"])
def test_calls_from_before_the_opening_neither_close_a_breaker_nor_keep_it_open(verdict: str) -> None:
    clock = Clock()
    breaker = Breaker("m", failures=2, seconds=10, clock=clock)
    late, *others = [breaker.admit() for _ in range(3)]
    for permit in others:
        permit.report("failed")
    clock.now += 9
    late.report(verdict)  # type: ignore[arg-type]
    assert state_of(breaker) == "open"
    clock.now += 1
    assert state_of(breaker) == "half_open"


def test_the_first_tokens_of_a_closed_breaker_do_not_forget_its_failures() -> None:
    breaker = Breaker("m", failures=2, seconds=10, clock=Clock())
    for _ in range(2):  # streams that begin and break off
        permit = breaker.admit()
        permit.report("begun")
        permit.report("failed")
    assert state_of(breaker) == "open"


def test_retries_are_a_share_of_the_calls_of_the_last_ten_seconds() -> None:
    clock = Clock()
    budget = RetryBudget(0.2, clock)
    for _ in range(100):
        budget.count_call()
    # ten are always allowed: 10 + 0.2 · 100
    assert [budget.take() for _ in range(31)] == [True] * 30 + [False]
    clock.now += 10.5
    assert [budget.take() for _ in range(11)] == [True] * 10 + [False]


def test_a_limit_serves_in_order_and_refuses_what_exceeds_its_queue() -> None:
    async def run() -> None:
        limit, order, release = CallLimit("m", 1, 2, 5.0), list[int](), asyncio.Event()

        async def call(number: int) -> None:
            async with limit.place():
                order.append(number)
                await release.wait()

        tasks = [asyncio.ensure_future(call(number)) for number in range(3)]
        await asyncio.sleep(0)
        assert (order, limit.waiting) == ([0], 2)
        with pytest.raises(UpstreamError, match="m has 1 calls at work and 2 waiting") as caught:
            await call(3)
        assert caught.value.as_request_error().status == 503
        tasks[1].cancel()  # its client left
        await asyncio.sleep(0)
        assert limit.waiting == 1
        release.set()
        await asyncio.gather(tasks[0], tasks[2])
        assert (order, limit.waiting) == ([0, 2], 0)

    asyncio.run(run())


def test_a_call_waits_for_a_place_no_longer_than_the_limit() -> None:
    async def run() -> None:
        limit = CallLimit("m", 1, 2, 0.02)
        async with limit.place():
            with pytest.raises(UpstreamError, match="has waited in vain") as caught:
                async with limit.place():
                    pass
        assert caught.value.kind == "overload"
        async with limit.place():
            assert limit.waiting == 0

    asyncio.run(run())
