"""Rates and budgets of keys and tenants, in memory. No server, no database.

A rate is a token bucket: it holds one minute's worth, which may come at once, and refills steadily. A budget is a
sum of costs since the start of the UTC day and month. What a call uses is known at its end only, so it reserves an
estimate and is settled later; a bucket may go below zero and a budget above its limit by what calls in flight used
more than estimated. Order of checks: requests, tokens, budget of the day, budget of the month, and of each the
key's before the tenant's. A refused call uses nothing up.

Not covered: rates over several processes (each has the whole rate; divide it by their number), and costs of other
processes until the next ``Budgets.rebuild``.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic, time
from typing import Literal, NamedTuple, TypeVar

from upturn.config import AccessConfig, LimitSettings
from upturn.dialects import RequestError
from upturn.gateway.access.keys import Caller
from upturn.loop.online import Left
from upturn.pool.access import Spending
from upturn.records import ApiKey, Call

NumberT = TypeVar("NumberT", int, float)
_MINUTE = 60.0
Owner = tuple[Literal["API key", "tenant"], str]
"""Who a limit belongs to."""


class Limits(NamedTuple):
    """Limits of one owner; None = no limit."""

    usd_per_day: float | None = None
    usd_per_month: float | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class Period(NamedTuple):
    """A calendar day or month (UTC)."""

    start: float
    """UTC, seconds since 1970."""
    end: float


def day_of(now: float) -> Period:
    """Returns the UTC day of a time."""
    start = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    return Period(start, start + 86_400.0)  # UTC days have no leap seconds in POSIX time


def month_of(now: float) -> Period:
    """Returns the UTC month of a time."""
    first = datetime.fromtimestamp(now, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return Period(first.timestamp(), following.timestamp())


@dataclass(slots=True)
class Bucket:
    """A token bucket: ``per_minute`` units at most, refilled steadily."""

    per_minute: float
    level: float
    updated_at: float

    def wait(self, amount: float, now: float) -> float:
        """Returns the seconds until ``amount`` can be taken; 0 = now.

        An amount above the capacity can be taken from a full bucket, otherwise it never could.
        """
        self._refill(now)
        missing = min(amount, self.per_minute) - self.level
        return max(0.0, missing) * _MINUTE / self.per_minute

    def take(self, amount: float, now: float) -> None:
        """Takes an amount, also more than there is; a negative amount is given back."""
        self._refill(now)
        self.level = min(self.per_minute, self.level - amount)

    def _refill(self, now: float) -> None:
        passed = max(0.0, now - self.updated_at)
        self.level = min(self.per_minute, self.level + passed * self.per_minute / _MINUTE)
        self.updated_at = now


class Rates:
    """Buckets of one unit, such as requests. They are made when they are needed and dropped when they are full."""

    _LARGEST = 10_000
    """Number of buckets from which full ones are dropped."""

    def __init__(self, unit: str, timer: Callable[[], float] = monotonic) -> None:
        self._unit = unit
        self._timer = timer
        self._buckets: dict[Owner, Bucket] = {}

    def check(self, limits: Mapping[Owner, int], amount: float) -> None:
        """Raises RequestError (429) if an owner's bucket has less than ``amount``."""
        now = self._timer()
        for owner, limit in limits.items():
            if seconds := self._bucket(owner, limit, now).wait(amount, now):
                raise _too_many(f"{_named(owner)} may use {limit:,} {self._unit} per minute", "rate_limit", seconds)

    def take(self, limits: Mapping[Owner, int], amount: float) -> None:
        """Takes ``amount`` from each owner's bucket."""
        now = self._timer()
        for owner, limit in limits.items():
            self._bucket(owner, limit, now).take(amount, now)

    def _bucket(self, owner: Owner, limit: int, now: float) -> Bucket:
        bucket = self._buckets.get(owner)
        if bucket is None or bucket.per_minute != limit:
            if len(self._buckets) >= self._LARGEST:
                self._buckets = {name: kept for name, kept in self._buckets.items() if kept.wait(math.inf, now)}
            bucket = self._buckets[owner] = Bucket(limit, limit, now)
        return bucket


@dataclass(slots=True)
class _Sums:
    """Costs of one owner, in USD."""

    day_usd: float = 0.0
    month_usd: float = 0.0
    reserved_usd: float = 0.0


class Budgets:
    """What each key and tenant spent in this UTC day and month, and what calls in flight will probably spend."""

    def __init__(self, clock: Callable[[], float] = time) -> None:
        """``clock`` returns UTC seconds."""
        self._clock = clock
        self._day, self._month = day_of(clock()), month_of(clock())
        self._sums: dict[Owner, _Sums] = {}

    @property
    def since(self) -> tuple[float, float]:
        """Start of the day and of the month, for ``pool.access.spending``."""
        self._turn_over()
        return self._day.start, self._month.start

    def rebuild(self, spent: Iterable[Spending]) -> None:
        """Replaces the sums by those of the pool; reservations stay.

        Call it at the start, and from time to time where other processes store calls too. A call that is settled
        but not yet stored counts again from the next time on.
        """
        self._turn_over()
        for sums in self._sums.values():
            sums.day_usd = sums.month_usd = 0.0
        self.add(spent)

    def add(self, spent: Iterable[Spending]) -> None:
        """Adds costs to the sums."""
        self._turn_over()
        for row in spent:
            owners: list[Owner] = [("tenant", row.tenant), ("API key", row.key)]
            for owner in owners if row.key else owners[:1]:
                sums = self._of(owner)
                sums.day_usd += row.day_usd
                sums.month_usd += row.month_usd

    def spent(self, owner: Owner) -> tuple[float, float]:
        """Returns the USD spent in this day and this month."""
        self._turn_over()
        sums = self._of(owner)
        return sums.day_usd, sums.month_usd

    def check(self, limits: Mapping[Owner, Limits], estimate_usd: float) -> None:
        """Raises RequestError (429) if a budget is used up, or the estimate does not fit into it."""
        self._turn_over()
        for owner, limit in limits.items():
            sums = self._of(owner)
            for usd, spent, period, name in (
                (limit.usd_per_day, sums.day_usd, self._day, "day"),
                (limit.usd_per_month, sums.month_usd, self._month, "month"),
            ):
                planned = spent + sums.reserved_usd
                if usd is not None and (planned >= usd or planned + estimate_usd > usd):
                    text = (
                        f"{_spent(owner, sums, spent, limit=usd, period=name)}; raise its usd_per_{name} for more"
                    )
                    raise _too_many(text, "budget_exceeded", period.end - self._clock())

    def left(self, limits: Mapping[Owner, Limits]) -> Left | None:
        """Returns what is left of the tightest budget; None = no owner has one."""
        self._turn_over()
        tightest: Left | None = None
        for owner, limit in limits.items():
            sums = self._of(owner)
            for usd, spent, period, name in (
                (limit.usd_per_day, sums.day_usd, self._day, "day"),
                (limit.usd_per_month, sums.month_usd, self._month, "month"),
            ):
                planned = spent + sums.reserved_usd
                if usd is not None and (tightest is None or usd - planned < tightest.usd):
                    wait = _whole_seconds(period.end - self._clock())
                    text = _spent(owner, sums, spent, limit=usd, period=name)
                    tightest = Left(usd - planned, text, wait)
        return tightest

    def reserve(self, owners: Iterable[Owner], usd: float) -> None:
        """Adds to what calls in flight will probably spend; a negative amount ends a reservation."""
        for owner in owners:
            self._of(owner).reserved_usd += usd

    def charge(self, owners: Iterable[Owner], usd: float) -> None:
        """Adds the cost of a call."""
        self._turn_over()
        for owner in owners:
            sums = self._of(owner)
            sums.day_usd += usd
            sums.month_usd += usd

    def _of(self, owner: Owner) -> _Sums:
        return self._sums.setdefault(owner, _Sums())

    def _turn_over(self) -> None:
        """Begins a new day or month."""
        now = self._clock()
        if now >= self._day.end:
            self._day = day_of(now)
            for sums in self._sums.values():
                sums.day_usd = 0.0
        if now >= self._month.end:
            self._month = month_of(now)
            for sums in self._sums.values():
                sums.month_usd = 0.0


@dataclass(slots=True)
class Usage:
    """What an admitted call has reserved. Settle it exactly once, also when the call fails."""

    _limiter: "Limiter"
    _limits: Mapping[Owner, Limits]
    _token_limits: Mapping[Owner, int]
    _tokens: float
    _usd: float
    _is_settled: bool = field(default=False, init=False)

    def settle(self, *, tokens: int, cost_usd: float | None) -> None:
        """Replaces the estimates by what the call used; ``cost_usd`` None = the model has no price."""
        assert not self._is_settled, "a call is settled once"
        self._is_settled = True
        self._limiter.tokens.take(self._token_limits, tokens - self._tokens)
        self._limiter.budgets.reserve(self._limits, -self._usd)
        if cost_usd:
            self._limiter.budgets.charge(self._limits, cost_usd)

    def left(self) -> Left | None:
        """Returns what is left of the tightest budget; None = there is none."""
        return self._limiter.budgets.left(self._limits)

    def reserve(self, usd: float) -> None:
        """Adds to what the call will probably cost, until it is settled."""
        self._limiter.budgets.reserve(self._limits, usd)
        self._usd += usd

    def settle_call(self, call: Call) -> None:
        """Settles a stored call."""
        self.settle_once(tokens=call.input_tokens + call.output_tokens, cost_usd=call.cost_usd)

    def settle_once(self, *, tokens: int, cost_usd: float | None) -> None:
        """Settles a call that is not settled yet."""
        if not self._is_settled:
            self.settle(tokens=tokens, cost_usd=cost_usd)


class Limiter:
    """Rates and budgets of all callers of one process. For one thread, such as that of an event loop."""

    def __init__(
        self, access: AccessConfig, *, timer: Callable[[], float] = monotonic, clock: Callable[[], float] = time
    ) -> None:
        """``timer`` returns seconds that never go back, ``clock`` UTC seconds."""
        self.configure(access)
        self.requests = Rates("requests", timer)
        self.tokens = Rates("tokens", timer)
        self.budgets = Budgets(clock)

    def configure(self, access: AccessConfig) -> None:
        """Applies the limits of tenants and keys to later calls; what was used before counts in them.

        A rate that changes begins with a full minute.
        """
        self._of_keys = _configured(access.key_limits)
        self._of_tenants = {tenant.name: _configured(tenant) for tenant in access.tenants}

    def admit(self, caller: Caller, *, tokens: int = 0, cost_usd: float = 0.0) -> Usage:
        """Returns the reservation of a call with these estimates; raises RequestError (429) with Retry-After."""
        limits = self._limits(caller)
        requests = {
            owner: limit.requests_per_minute for owner, limit in limits.items() if limit.requests_per_minute
        }
        token_limits = {
            owner: limit.tokens_per_minute for owner, limit in limits.items() if limit.tokens_per_minute
        }
        self.requests.check(requests, 1.0)
        self.tokens.check(token_limits, tokens)
        self.budgets.check(limits, cost_usd)
        self.requests.take(requests, 1.0)
        self.tokens.take(token_limits, tokens)
        self.budgets.reserve(limits, cost_usd)
        return Usage(self, limits, token_limits, tokens, cost_usd)

    def check_budgets(self, caller: Caller) -> None:
        """Raises RequestError (429) if a budget of the caller is used up."""
        self.budgets.check(self._limits(caller), 0.0)

    def _limits(self, caller: Caller) -> dict[Owner, Limits]:
        limits: dict[Owner, Limits] = {}
        if caller.key is not None:
            limits["API key", caller.key.id] = _limits_of(caller.key, self._of_keys)
        limits["tenant", caller.tenant] = self._of_tenants.get(caller.tenant, Limits())
        return limits


def _configured(limits: LimitSettings) -> Limits:
    return Limits(limits.usd_per_day, limits.usd_per_month, limits.requests_per_minute, limits.tokens_per_minute)


def _limits_of(key: ApiKey, default: Limits) -> Limits:
    """Returns a key's limits; those that it does not have are the configuration's."""
    return Limits(
        _first(key.usd_per_day, default.usd_per_day),
        _first(key.usd_per_month, default.usd_per_month),
        _first(key.requests_per_minute, default.requests_per_minute),
        _first(key.tokens_per_minute, default.tokens_per_minute),
    )


def _first(value: NumberT | None, default: NumberT | None) -> NumberT | None:
    return default if value is None else value


def _named(owner: Owner) -> str:
    return f"the {owner[0]} {owner[1]!r}"


def _spent(owner: Owner, sums: _Sums, spent: float, *, limit: float, period: str) -> str:
    in_flight = f", and calls in flight will cost about {sums.reserved_usd:.6g}" if sums.reserved_usd > 0 else ""
    return f"{_named(owner)} has spent {spent:.6g} of {limit:g} USD of this {period} (UTC){in_flight}"


def _too_many(text: str, code: str, seconds: float) -> RequestError:
    wait = _whole_seconds(seconds)
    return RequestError(f"{text}; try again in {wait:,} s", status=429, code=code, retry_after_seconds=wait)


def _whole_seconds(seconds: float) -> int:
    return max(1, math.ceil(seconds))
