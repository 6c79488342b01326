"""Rates and budgets with a fake clock and hand-worked numbers."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.config import AccessConfig, LimitSettings, TenantConfig
from upturn.dialects import RequestError
from upturn.gateway.access.keys import Caller
from upturn.gateway.access.limits import Bucket, Limiter, day_of, month_of
from upturn.pool.access import Spending
from upturn.records import ApiKey


class FakeTime:
    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def utc(*date: int) -> float:
    return datetime(*date, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]


NOON = utc(2026, 2, 28, 12)


def key(
    name: str = "k", *, day: float | None = None, month: float | None = None,
    requests: int | None = None, tokens: int | None = None, tenant: str = "acme",
) -> Caller:  # fmt: skip
    return Caller(
        tenant, ApiKey(name, "d", tenant, "n", ("client",), 1.0, None, None, day, month, requests, tokens)
    )


def refusal(limiter: Limiter, caller: Caller, *, tokens: int = 0, cost_usd: float = 0.0) -> RequestError:
    with pytest.raises(RequestError) as error:
        limiter.admit(caller, tokens=tokens, cost_usd=cost_usd)
    assert error.value.status == 429
    return error.value


def test_requests_come_at_once_and_then_steadily() -> None:
    timer = FakeTime()
    limiter, caller = Limiter(AccessConfig(), timer=timer, clock=FakeTime(NOON)), key(requests=30)
    for _ in range(30):
        limiter.admit(caller)
    error = refusal(limiter, caller)
    assert (error.code, error.retry_after_seconds) == ("rate_limit", 2)
    assert str(error) == "the API key 'k' may use 30 requests per minute; try again in 2 s"
    timer.now = 1.99
    refusal(limiter, caller)
    timer.now = 2.0
    limiter.admit(caller)
    refusal(limiter, caller)


def test_tokens_are_settled_by_what_was_used() -> None:
    timer = FakeTime()
    limiter, caller = Limiter(AccessConfig(), timer=timer, clock=FakeTime(NOON)), key(tokens=600)
    usage = limiter.admit(caller, tokens=100)
    usage.settle(tokens=500, cost_usd=None)
    assert refusal(limiter, caller, tokens=101).retry_after_seconds == 1, "100 are left, 10 come every second"
    limiter.admit(caller, tokens=100).settle(tokens=700, cost_usd=None)
    error = refusal(limiter, caller, tokens=50)
    assert error.retry_after_seconds == 65, "it is at -600 and needs 50"
    timer.now = 65.0
    limiter.admit(caller, tokens=50)


def test_a_request_above_the_capacity_passes_a_full_bucket() -> None:
    timer = FakeTime()
    limiter, caller = Limiter(AccessConfig(), timer=timer, clock=FakeTime(NOON)), key(tokens=60)
    limiter.admit(caller, tokens=1_000)
    assert refusal(limiter, caller, tokens=1_000).retry_after_seconds == 1_000


def test_a_refused_call_uses_nothing_up() -> None:
    limiter, caller = Limiter(AccessConfig(), timer=FakeTime(), clock=FakeTime(NOON)), key(requests=2, tokens=10)
    limiter.admit(caller, tokens=10)
    for _ in range(5):
        assert "tokens" in str(refusal(limiter, caller, tokens=1))
    limiter.admit(caller, tokens=0)
    assert "requests" in str(refusal(limiter, caller, tokens=0))


def test_a_tenants_limits_hold_for_all_its_keys_together() -> None:
    access = AccessConfig(tenants=(TenantConfig(name="acme", requests_per_minute=3),))
    limiter = Limiter(access, timer=FakeTime(), clock=FakeTime(NOON))
    for caller in (key("a"), key("b"), Caller("acme")):
        limiter.admit(caller)
    assert str(refusal(limiter, key("c"))).startswith("the tenant 'acme' may use 3 requests")
    limiter.admit(key("d", tenant="other"))


def test_keys_without_limits_get_those_of_the_configuration() -> None:
    access = AccessConfig(key_limits=LimitSettings(requests_per_minute=1, usd_per_day=5.0))
    limiter = Limiter(access, timer=FakeTime(), clock=FakeTime(NOON))
    limiter.admit(key("a"))
    refusal(limiter, key("a"))
    limiter.admit(key("b", requests=2))
    limiter.admit(key("b", requests=2))
    assert "5 USD" in str(refusal(limiter, key("c", requests=2), cost_usd=5.5))


def test_budgets_end_with_the_utc_day_and_month() -> None:
    clock = FakeTime(NOON)
    limiter, caller = Limiter(AccessConfig(), timer=FakeTime(), clock=clock), key(day=1.0, month=1.5)
    limiter.admit(caller).settle(tokens=0, cost_usd=1.0)
    error = refusal(limiter, caller)
    assert (error.code, error.retry_after_seconds) == ("budget_exceeded", 12 * 3600)
    assert str(error).startswith("the API key 'k' has spent 1 of 1 USD of this day (UTC)")
    clock.now = utc(2026, 3, 1)
    limiter.admit(caller).settle(tokens=0, cost_usd=0.75)
    clock.now = utc(2026, 3, 2)
    limiter.admit(caller).settle(tokens=0, cost_usd=0.75)
    error = refusal(limiter, caller)
    assert "1.5 of 1.5 USD of this month" in str(error)
    assert error.retry_after_seconds == 30 * 86_400


def test_a_limit_that_comes_later_counts_what_was_spent_before() -> None:
    limiter, caller = Limiter(AccessConfig(), timer=FakeTime(), clock=FakeTime(NOON)), key()
    in_flight = limiter.admit(caller, cost_usd=0.25)
    limiter.admit(caller).settle(tokens=0, cost_usd=1.0)
    tenant = TenantConfig(name="acme", usd_per_day=1.5, requests_per_minute=1)
    limiter.configure(AccessConfig(key_limits=LimitSettings(usd_per_day=9.0), tenants=(tenant,)))
    assert "has spent 1 of 1.5 USD" in str(refusal(limiter, caller, cost_usd=0.5))
    in_flight.settle(tokens=0, cost_usd=0.5)
    error = refusal(limiter, caller)
    assert str(error).startswith("the tenant 'acme' has spent 1.5 of 1.5 USD of this day (UTC)")
    limiter.configure(AccessConfig())
    for _ in range(3):
        limiter.admit(caller)


def test_calls_in_flight_reserve_their_estimates() -> None:
    limiter, caller = Limiter(AccessConfig(), timer=FakeTime(), clock=FakeTime(NOON)), key(day=1.0)
    first = limiter.admit(caller, cost_usd=0.5)
    second = limiter.admit(caller, cost_usd=0.5)
    refusal(limiter, caller, cost_usd=0.25)
    first.settle(tokens=0, cost_usd=None)
    limiter.admit(caller, cost_usd=0.25).settle(tokens=0, cost_usd=0.25)
    second.settle(tokens=0, cost_usd=0.5)
    assert limiter.budgets.spent(("API key", "k")) == (0.75, 0.75)
    assert limiter.budgets.spent(("tenant", "acme")) == (0.75, 0.75)
    refusal(limiter, caller, cost_usd=0.5)


def test_sums_are_rebuilt_from_the_pool() -> None:
    limiter = Limiter(AccessConfig(), timer=FakeTime(), clock=FakeTime(NOON))
    limiter.admit(key("a")).settle(tokens=0, cost_usd=64.0)  # stored, so the rows include it
    limiter.budgets.rebuild([Spending("acme", "", 1.0, 2.0), Spending("acme", "a", 4.0, 8.0)])
    assert limiter.budgets.spent(("tenant", "acme")) == (5.0, 10.0)
    assert limiter.budgets.spent(("API key", "a")) == (4.0, 8.0)
    assert limiter.budgets.since == (utc(2026, 2, 28), utc(2026, 2, 1))


def test_a_call_is_settled_once() -> None:
    usage = Limiter(AccessConfig(), clock=FakeTime(NOON)).admit(key())
    usage.settle(tokens=1, cost_usd=1.0)
    with pytest.raises(AssertionError):
        usage.settle(tokens=1, cost_usd=1.0)


def test_december_and_leap_years_end() -> None:
    assert month_of(utc(2026, 12, 31, 23, 59, 59)) == (utc(2026, 12, 1), utc(2027, 1, 1))
    assert month_of(utc(2028, 2, 29)) == (utc(2028, 2, 1), utc(2028, 3, 1))
    assert day_of(utc(2028, 2, 29, 5)) == (utc(2028, 2, 29), utc(2028, 3, 1))


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 5)), max_size=60), st.sampled_from([6, 60]))
def test_a_bucket_never_gives_more_than_its_rate(requests: list[tuple[int, int]], limit: int) -> None:
    """In any window: at most the capacity and what came in that time."""
    bucket, now, taken = Bucket(limit, limit, 0.0), 0.0, list[tuple[float, int]]()
    for gap, amount in requests:
        now += gap / 1000
        if not bucket.wait(amount, now):
            bucket.take(amount, now)
            taken.append((now, amount))
    for first, (start, _) in enumerate(taken):
        total = 0
        for end, amount in taken[first:]:
            total += amount
            assert total <= limit + (end - start) * limit / 60 + 1e-6


@given(st.integers(1, 6), st.floats(0, 100))
def test_after_the_announced_wait_it_passes(amount: int, level: float) -> None:
    bucket = Bucket(6, min(level, 6), 0.0)
    seconds = bucket.wait(amount, 0.0)
    assert bucket.wait(amount, seconds + 1e-6) == 0.0
