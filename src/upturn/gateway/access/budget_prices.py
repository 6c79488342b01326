"""Warnings of budgets in USD that agents without a price do not use up.

The configuration refuses its own budgets without any price; the keys of a pool are not known to it.
"""

from collections.abc import Callable, Collection, Iterable

from upturn.config import Config, LimitSettings
from upturn.records import ApiKey


class BudgetPrices:
    """Compares the budgets of keys and tenants with the prices of agents. For one event loop."""

    def __init__(self, config: Config, warn: Callable[[str], None]) -> None:
        """``warn`` is called with each new warning."""
        self._config = config
        self._warn = warn
        self._keys: Collection[ApiKey] = ()
        self._said = ""

    def follow_keys(self, keys: Collection[ApiKey]) -> None:
        """Warns where changed keys give a reason to."""
        self._keys = keys
        self._say()

    def follow_config(self, config: Config) -> str:
        """Warns where a changed configuration gives a reason to; returns the warning, empty = none."""
        self._config = config
        self._say()
        return self._said

    def _say(self) -> None:
        warning = budget_warning(self._config, self._keys)
        if warning and warning != self._said:
            self._warn(warning)
        self._said = warning


def budget_warning(config: Config, keys: Iterable[ApiKey]) -> str:
    """Returns what budgets do not count; empty = there is no budget in USD, or all agents have a price.

    ``keys``: those that are not revoked matter.
    """
    unpriced = [agent.name for agent in config.agents if config.price_of(agent.name, agent.model) is None]
    owners = [f"tenant {tenant.name!r}" for tenant in config.access.tenants if _has_budget(tenant)]
    owners += ["access.key_limits"] if _has_budget(config.access.key_limits) else []
    owners += [f"key {key.id!r} ({key.name})" for key in keys if key.revoked_at is None and _has_budget(key)]
    if not unpriced or not owners:
        return ""
    names = ", ".join(map(repr, unpriced))
    return (
        f"the budgets in USD of {', '.join(owners)} do not count the calls and tasks of {names}: without a price, "
        "their cost is unknown; add a table [prices.NAME], or set the agent's price"
    )


def _has_budget(limits: LimitSettings | ApiKey) -> bool:
    return limits.usd_per_day is not None or limits.usd_per_month is not None
