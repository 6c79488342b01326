"""The waiting line: by hand, as a state machine, and overloaded in virtual time."""

import asyncio
import selectors
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.config import AccessConfig
from upturn.dialects import RequestError
from upturn.gateway.access.admission import AdmissionQueue, Entered, WaitingLine

ResultT = TypeVar("ResultT")


class _Selector(selectors.DefaultSelector):
    """Waits by moving the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += max(0.0, timeout or 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose seconds pass at once."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


def run(loop: VirtualLoop, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    return loop.run_until_complete(work)


def queue(loop: VirtualLoop, in_flight: int, waiting: int, seconds: float = 10.0) -> AdmissionQueue:
    access = AccessConfig(max_in_flight=in_flight, max_waiting=waiting, max_wait_seconds=seconds)
    return AdmissionQueue(access, timer=loop.time)


def test_tenants_take_turns_and_calls_of_one_keep_their_order() -> None:
    line: WaitingLine[str] = WaitingLine(1, 10)
    assert line.enter("a", "a0") == Entered(True)
    for item in ("a1", "a2", "a3", "b1", "b2", "c1"):
        assert line.enter(item[0], item) == Entered(False)
    order = [line.finish("a")]
    while (last := order[-1]) is not None:
        order.append(line.finish(last[0]))
    assert order.pop() is None
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert (line.in_flight, line.waiting) == (0, 0)


def test_the_tenant_with_the_fewest_calls_in_service_is_next() -> None:
    line: WaitingLine[str] = WaitingLine(3, 10)
    for item in ("a1", "a2", "b1", "a3", "b2"):
        line.enter(item[0], item)
    assert line.finish("a") == "a3", "one each, and a waits longer"
    assert line.finish("b") == "b2"


def test_a_full_line_refuses_the_new_call_or_the_latest_of_the_largest_tenant() -> None:
    line: WaitingLine[str] = WaitingLine(1, 4)
    for item in ("a0", "a1", "a2", "a3", "a4"):
        line.enter("a", item)
    assert line.enter("a", "a5") == Entered(False, "a5")
    assert line.enter("b", "b1") == Entered(False, "a4")
    assert line.enter("b", "b2") == Entered(False, "a3")
    assert line.enter("b", "b3") == Entered(False, "b3"), "two and two: an exchange would only turn that round"
    assert line.enter("a", "a6") == Entered(False, "a6")
    assert line.waiting == 4


def test_without_room_to_wait_calls_are_refused() -> None:
    line: WaitingLine[str] = WaitingLine(1, 0)
    line.enter("a", "a1")
    assert line.enter("b", "b1") == Entered(False, "b1")


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=80), st.integers(1, 3), st.integers(0, 4)
)
def test_every_call_is_served_or_refused_once(steps: list[tuple[str, bool]], in_flight: int, waiting: int) -> None:
    line: WaitingLine[tuple[str, int]] = WaitingLine(in_flight, waiting)
    serving, refused, entered = list[tuple[str, int]](), list[tuple[str, int]](), list[tuple[str, int]]()
    finished = list[tuple[str, int]]()

    def finish() -> None:
        done = serving.pop(0)
        finished.append(done)
        if (following := line.finish(done[0])) is not None:
            serving.append(following)

    for number, (tenant, is_arrival) in enumerate(steps):
        if is_arrival:
            call = (tenant, number)
            entered.append(call)
            result = line.enter(tenant, call)
            serving += [call] if result.is_served else []
            refused += [result.displaced] if result.displaced is not None else []
        elif serving:
            finish()
        assert line.in_flight == len(serving) <= in_flight
        assert line.waiting <= waiting
        assert line.waiting == 0 or len(serving) == in_flight, "nobody waits beside a free place"
    while serving:
        finish()
    assert sorted(finished + refused) == sorted(entered)


def test_a_call_waits_for_its_turn(loop: VirtualLoop) -> None:
    async def scenario() -> list[tuple[str, float]]:
        admission, served = queue(loop, 1, 5), list[tuple[str, float]]()

        async def call(name: str) -> None:
            async with admission.slot(name[0]):
                served.append((name, loop.time()))
                await asyncio.sleep(1.0)

        await asyncio.gather(*(call(name) for name in ("a1", "a2", "b1")))
        assert (admission.in_flight, admission.waiting) == (0, 0)
        return served

    assert run(loop, scenario()) == [("a1", 0.0), ("a2", 1.0), ("b1", 2.0)]


def test_too_long_a_wait_is_refused_with_retry_after(loop: VirtualLoop) -> None:
    async def scenario() -> RequestError:
        admission = queue(loop, 1, 5, seconds=2.0)
        async with admission.slot("a"):
            with pytest.raises(RequestError) as error:
                async with admission.slot("b"):
                    pass
            assert loop.time() == pytest.approx(2.0)
            assert (admission.in_flight, admission.waiting) == (1, 0)
        return error.value

    error = run(loop, scenario())
    assert (error.status, error.code, error.retry_after_seconds) == (503, "overloaded", 1)
    assert "1 calls are in service and 0 wait" in str(error)


def test_a_client_that_leaves_gives_its_place_back(loop: VirtualLoop) -> None:
    async def scenario() -> None:
        admission = queue(loop, 1, 5)

        async def call(seconds: float) -> None:
            async with admission.slot("a"):
                await asyncio.sleep(seconds)

        serving, leaving, staying = (asyncio.ensure_future(call(1.0)) for _ in range(3))
        await asyncio.sleep(0.5)
        assert (admission.in_flight, admission.waiting) == (1, 2)
        leaving.cancel()
        serving.cancel()  # at the same moment: the turn goes to the one that stays
        await asyncio.wait([serving, leaving])
        assert (admission.in_flight, admission.waiting) == (1, 0)
        await staying
        assert loop.time() == pytest.approx(1.5)
        assert (admission.in_flight, admission.waiting) == (0, 0)

    run(loop, scenario())


def test_a_displaced_call_is_refused(loop: VirtualLoop) -> None:
    async def scenario() -> None:
        admission = queue(loop, 1, 2)

        async def call(tenant: str) -> None:
            async with admission.slot(tenant):
                await asyncio.sleep(1.0)

        calls = [asyncio.ensure_future(call(tenant)) for tenant in "aaab"]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(result) for result in results] == [type(None), type(None), RequestError, type(None)]

    run(loop, scenario())


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 3), st.none() | st.integers(0, 5)),
        max_size=25,
    ),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_places_are_given_back_whatever_clients_do(
    calls: list[tuple[str, int, int, int | None]], in_flight: int, waiting: int
) -> None:
    """Calls (tenant, pause before, duration, time until the client leaves), also at the same moments."""
    loop = VirtualLoop()

    async def scenario() -> None:
        admission, serving = queue(loop, in_flight, waiting, seconds=2.0), 0

        async def call(tenant: str, duration: int) -> None:
            nonlocal serving
            with suppress(RequestError):
                async with admission.slot(tenant):
                    serving += 1
                    assert serving <= in_flight
                    try:
                        await asyncio.sleep(duration)
                    finally:
                        serving -= 1

        tasks = list[asyncio.Task[None]]()
        for tenant, pause, duration, leaves in calls:
            await asyncio.sleep(pause)
            tasks.append(asyncio.ensure_future(call(tenant, duration)))
            if leaves is not None:
                loop.call_later(leaves, tasks[-1].cancel)
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert result is None or isinstance(result, asyncio.CancelledError)
        assert (admission.in_flight, admission.waiting) == (0, 0)
        async with admission.slot("a"):
            assert admission.in_flight == 1

    try:
        run(loop, scenario())
    finally:
        loop.close()


class Load(NamedTuple):
    """What happened to calls that arrived in one phase."""

    waits: list[float]
    """Seconds from arrival to answer of served calls."""
    refused: list[float]
    """Times of refusals."""

    @property
    def p99(self) -> float:
        return sorted(self.waits)[int(len(self.waits) * 0.99)]


SERVICE_SECONDS = 0.1
IN_FLIGHT = 10
CAPACITY = IN_FLIGHT / SERVICE_SECONDS  # calls per second


def test_a_tenfold_overload_is_bounded_and_recovers_within_five_seconds(loop: VirtualLoop) -> None:
    async def scenario() -> list[Load]:
        admission = queue(loop, IN_FLIGHT, IN_FLIGHT)
        largest = 0

        async def call(load: Load) -> None:
            nonlocal largest
            arrived = loop.time()
            try:
                async with admission.slot("a"):
                    largest = max(largest, admission.waiting)
                    await asyncio.sleep(SERVICE_SECONDS)
                load.waits.append(loop.time() - arrived)
            except RequestError as error:
                assert error.status == 503
                assert error.retry_after_seconds is not None
                assert 1 <= error.retry_after_seconds <= 60
                load.refused.append(loop.time())

        async def arrive(rate: float, seconds: float) -> Load:
            load, calls = Load([], []), list[asyncio.Task[None]]()
            for _ in range(int(rate * seconds)):
                calls.append(asyncio.ensure_future(call(load)))
                await asyncio.sleep(1 / rate)
            loads.append(load)
            pending.extend(calls)
            return load

        loads, pending = list[Load](), list[asyncio.Task[None]]()
        await arrive(0.5 * CAPACITY, 5.0)
        await arrive(10 * CAPACITY, 10.0)
        ended.append(loop.time())
        await arrive(0.5 * CAPACITY, 10.0)
        await asyncio.gather(*pending)
        assert largest <= IN_FLIGHT
        assert (admission.in_flight, admission.waiting) == (0, 0)
        return loads

    ended = list[float]()
    unloaded, overloaded, after = run(loop, scenario())
    assert not unloaded.refused
    assert len(overloaded.waits) == pytest.approx(10 * CAPACITY, rel=0.03), "it serves at capacity meanwhile"
    assert overloaded.p99 <= 3 * unloaded.p99
    assert all(time <= ended[0] + 5.0 for time in after.refused)
    settled = after.waits[int(len(after.waits) * 0.1) :]  # those of the last nine seconds
    assert max(settled) == pytest.approx(SERVICE_SECONDS), "as before the overload"


def test_a_flood_of_one_tenant_leaves_half_of_the_service_to_another(loop: VirtualLoop) -> None:
    async def scenario() -> tuple[int, int]:
        admission, served = queue(loop, IN_FLIGHT, IN_FLIGHT), {"flood": 0, "calm": 0}

        async def call(tenant: str) -> None:
            with suppress(RequestError):
                async with admission.slot(tenant):
                    await asyncio.sleep(SERVICE_SECONDS)
                served[tenant] += 1

        async def arrive(tenant: str, rate: float) -> list[asyncio.Task[None]]:
            calls = []
            for _ in range(int(rate * 10.0)):
                calls.append(asyncio.ensure_future(call(tenant)))
                await asyncio.sleep(1 / rate)
            return calls

        for calls in await asyncio.gather(arrive("flood", 10 * CAPACITY), arrive("calm", 0.4 * CAPACITY)):
            await asyncio.gather(*calls)
        return served["flood"], served["calm"]

    flood, calm = run(loop, scenario())
    assert calm == int(0.4 * CAPACITY * 10.0), "none of its calls is refused"
    assert flood + calm == pytest.approx(10 * CAPACITY, rel=0.03)
