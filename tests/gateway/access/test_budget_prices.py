"""Budgets that agents without a price do not use up."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from upturn.config import Config
from upturn.gateway.access import BudgetPrices
from upturn.loop.trainers.registry import parse_full_config
from upturn.records import ApiKey

FAR = {"name": "far", "kind": "endpoint", "url": "http://localhost:1/v1", "model": "m"}
NEAR = FAR | {"name": "near", "model": "n"}
PRICE = {"input": 1, "output": 2}
KEY = ApiKey("k1", "", "default", "shop", ("client",), 0.0, usd_per_day=5.0)


def config_of(prices: Mapping[str, Any], **access: Any) -> Config:
    return parse_full_config(
        {"agents": [FAR, NEAR], "loop": {"train": []}, "prices": dict(prices), "access": access}
    )


def test_a_key_with_a_budget_is_warned_of_once_until_something_changes() -> None:
    said: list[str] = []
    budgets = BudgetPrices(config_of({}), said.append)
    free = replace(KEY, id="k0", usd_per_day=None)
    revoked = replace(KEY, id="k2", revoked_at=1.0)
    budgets.follow_keys([free, revoked])
    assert said == []
    budgets.follow_keys([free, KEY])
    [warning] = said
    assert warning.startswith(
        "the budgets in USD of key 'k1' (shop) do not count the calls and tasks of 'far', 'near'"
    )
    assert "add a table [prices.NAME], or set the agent's price" in warning
    budgets.follow_keys([free, KEY, revoked])
    assert len(said) == 1
    partly = budgets.follow_config(config_of({"m": PRICE}))
    assert "calls and tasks of 'near':" in partly
    assert said == [warning, partly]
    assert budgets.follow_config(config_of({"m": PRICE, "n": PRICE})) == ""


def test_budgets_of_the_configuration_are_named_too() -> None:
    said: list[str] = []
    config = config_of(
        {"m": PRICE}, tenants=[{"name": "acme", "usd_per_month": 9.0}], key_limits={"usd_per_day": 1.0}
    )
    BudgetPrices(config, said.append).follow_keys([])
    assert said[0].startswith("the budgets in USD of tenant 'acme', access.key_limits do not count")
