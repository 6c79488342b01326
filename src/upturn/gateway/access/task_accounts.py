"""The accounts of submitted tasks: their costs count in the budgets of key and tenant, like those of calls.

What a task costs is known when it has run. So one wave of tasks may exceed a budget, and later ones are refused.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum

from upturn.arbiter import cost_usd
from upturn.config import PriceConfig
from upturn.dialects import RequestError, TokenUsage
from upturn.gateway.access.keys import Caller, Gate
from upturn.gateway.access.limits import Limiter
from upturn.pool import ALL_TENANTS, Pool
from upturn.pool.access import Spending, TaskUsage, task_usage
from upturn.records import AgentVersion


def task_tokens(task: TaskUsage) -> TokenUsage:
    """Returns the tokens of a task as those of one call."""
    return TokenUsage(
        task.read, task.written, task.cached, cache_write=task.cache_write, cache_write_1h=task.cache_write_1h
    )


class PricedTasks:
    """Charges tasks at the prices of now. For one event loop."""

    def __init__(
        self, pool: Pool, limiter: Limiter, gate: Gate, price: Callable[[AgentVersion], PriceConfig | None]
    ) -> None:
        self._pool = pool
        self._limiter = limiter
        self._gate = gate
        self._price = price

    def start(self) -> None:
        """Adds what the tasks of this month did cost."""
        day, month = self._limiter.budgets.since
        used = task_usage(self._pool.engine, since=month, tenant=ALL_TENANTS)
        self._limiter.budgets.add(self._spending(used, day))

    def refusal(self, tenant: str, key: str) -> str:
        """Returns why no task of the tenant and API key may run now; empty = it may."""
        try:
            self._limiter.check_budgets(Caller(tenant, self._gate.key(key)))
        except RequestError as exc:
            return str(exc)
        return ""

    def cost_usd(self, task_id: str, tenant: str) -> float | None:
        """Returns what a task has cost at the prices of now; None = it has not run, its version has no price, or
        its tokens are unknown."""
        used = task_usage(self._pool.engine, since=0.0, tenant=tenant, task_ids=[task_id])
        prices = self._prices()
        costs = [_cost(task, prices) for task in used]
        known = [cost for cost in costs if cost is not None]
        return fsum(known) if known else None

    def charge(self, task_ids: Sequence[str]) -> None:
        """Adds what tasks that have run did cost."""
        day, month = self._limiter.budgets.since
        used = task_usage(self._pool.engine, since=month, tenant=ALL_TENANTS, task_ids=task_ids)
        self._limiter.budgets.add(self._spending(used, day))

    def _spending(self, used: Iterable[TaskUsage], day: float) -> list[Spending]:
        """Returns the costs of tasks by owner; unknown ones, of versions without a price, count as nothing."""
        prices = self._prices()
        sums: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for task in used:
            if (cost := _cost(task, prices)) is not None:
                of_day, of_month = sums[task.tenant, task.key]
                sums[task.tenant, task.key] = [of_day + cost * (task.recorded_at >= day), of_month + cost]
        return [Spending(*owner, *costs) for owner, costs in sums.items()]

    def _prices(self) -> Mapping[str, PriceConfig | None]:
        return {version.id: self._price(version) for version in self._pool.agent_versions()}


def _cost(task: TaskUsage, prices: Mapping[str, PriceConfig | None]) -> float | None:
    """Returns the cost of a task; None = its version has no price, or its tokens are unknown."""
    price = prices.get(task.agent_version)
    if price is None or not (task.read or task.written):
        return None
    return cost_usd(task_tokens(task), price)
