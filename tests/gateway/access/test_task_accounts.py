"""Costs of submitted tasks in the budgets of keys and tenants."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from upturn.arbiter import cost_usd
from upturn.config import AccessConfig, PriceConfig, TenantConfig
from upturn.gateway.access import PricedTasks, open_guard
from upturn.gateway.access.task_accounts import task_tokens
from upturn.pool import Pool
from upturn.pool.access import KeyStore, TaskUsage, make_key, task_usage
from upturn.pool.calls import submit_task
from upturn.records import AgentVersion, ApiKey, Observation, Task, Trajectory, Usage

ACCESS = AccessConfig(tenants=(TenantConfig(name="shop", usd_per_day=3.0),))
PRICES = {"dear@1": PriceConfig(input=1_000.0, output=2_000.0, cached_input=0.0)}


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with Pool.open(tmp_path / "pool.db") as opened:
        opened.append(AgentVersion("dear", "1", "endpoint"), AgentVersion("unpriced", "1", "endpoint"))
        yield opened


def executed(pool: Pool, name: str, *, key: str = "", version: str = "dear@1") -> str:
    """A submitted task that has run; it read 600 tokens, 100 of them cached, and wrote 250: 1 USD."""
    task = Task(name, "do", "desk", "office", tenant="shop")
    submit_task(pool, task, key)
    usage = Usage(600, 250, 1.0)
    pool.append(
        Trajectory(
            f"run-{name}",
            name,
            version,
            (),
            Observation(""),
            "finished",
            "rendered",
            usage=usage,
            cached_tokens=100,
        )
    )
    return name


def test_cache_writes_of_tasks_are_priced(pool: Pool) -> None:
    used = TaskUsage("shop", "", "dear@1", 600, 250, 0.0, cached=100, cache_write=200, cache_write_1h=50)
    price = PriceConfig(input=1.0, output=2.0, cached_input=0.0, cache_write=1.25, cache_write_1h=2.0)
    assert cost_usd(task_tokens(used), price) == pytest.approx((300 + 150 * 1.25 + 50 * 2.0 + 250 * 2.0) / 1e6)
    task = Task("t", "do", "desk", "office", tenant="shop")
    submit_task(pool, task, "")
    reported = Trajectory(
        "run-t",
        "t",
        "dear@1",
        (),
        Observation(""),
        "finished",
        "rendered",
        usage=Usage(600, 250),
        cached_tokens=100,
    )
    pool.append(replace(reported, cache_write_tokens=900, cache_write_1h_tokens=950))  # more than the prompt
    [stored] = task_usage(pool.engine, since=0.0, tenant="shop")
    assert (stored.read, stored.cached, stored.cache_write, stored.cache_write_1h) == (600, 100, 500, 500)


def accounts_of(pool: Pool) -> PricedTasks:
    guard = open_guard(ACCESS, pool, host="127.0.0.1", tenant="default")
    accounts = PricedTasks(pool, guard.limiter, guard.gate, lambda version: PRICES.get(version.id))
    accounts.start()
    return accounts


def test_tasks_use_up_the_budget_of_their_tenant_also_after_a_restart(pool: Pool) -> None:
    accounts = accounts_of(pool)
    for name in ("a", "b"):
        accounts.charge([executed(pool, name)])
    executed(pool, "free", version="unpriced@1")
    accounts.charge(["free"])
    assert accounts.refusal("shop", "") == ""
    accounts.charge([executed(pool, "c")])
    for current in (accounts, accounts_of(pool)):
        assert current.refusal("shop", "").startswith("the tenant 'shop' has spent 3 of 3 USD of this day (UTC)")
        assert current.refusal("other", "") == ""


def test_a_task_has_the_cost_that_it_is_charged(pool: Pool) -> None:
    accounts = accounts_of(pool)
    executed(pool, "a")
    executed(pool, "free", version="unpriced@1")
    submit_task(pool, Task("queued", "do", "desk", "office", tenant="shop"), "")
    submit_task(pool, Task("silent", "do", "desk", "office", tenant="shop"), "")
    pool.append(Trajectory("run-silent", "silent", "dear@1", (), Observation(""), "finished", "rendered"))
    assert accounts.cost_usd("a", "shop") == pytest.approx(1.0)
    assert [accounts.cost_usd(name, "shop") for name in ("free", "queued", "silent")] == [None, None, None]
    assert accounts.cost_usd("a", "other") is None


def test_tasks_use_up_the_budget_of_their_key(pool: Pool) -> None:
    made = make_key()
    with KeyStore(pool.location) as store:
        key = ApiKey(id=made.id, digest=made.digest, tenant="shop", roles=("client",), name="k", created_at=0.0)
        store.add(replace(key, usd_per_day=1.5), who="test")
    accounts = accounts_of(pool)
    accounts.charge([executed(pool, "a", key=made.id)])
    assert accounts.refusal("shop", made.id) == ""
    accounts.charge([executed(pool, "b", key=made.id)])
    assert accounts.refusal("shop", made.id).startswith(f"the API key '{made.id}' has spent 2 of 1.5 USD")
    assert accounts.refusal("shop", "") == ""
