"""Hard constraints: excluded before the policy, with the reason in the decision."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from upturn.arbiter import AgentRegistry, Constraints, Consumption, Objective, Router, RunKey, Uniform
from upturn.arbiter.consumption import FIRST
from upturn.config import AgentConfig, ObjectiveConfig, PriceConfig, TenantConfig
from upturn.errors import RoutingError
from upturn.pool import ALL_TENANTS, Pool
from upturn.records import MODEL_CALL, AgentVersion, Task

CALL = Task("c", "do", "mail", MODEL_CALL, tenant="shop", context={"tokens": 900, "tools": 0})


def agent(name: str, **limits: Any) -> AgentConfig:
    return AgentConfig(name, "callable", import_path="a:b", **limits)


def router_of(*agents: AgentConfig, tenants: tuple[TenantConfig, ...] = ()) -> Router:
    registry = AgentRegistry()
    for member in agents:
        registry.add(AgentVersion(member.name, "1", "callable"))
    router = Router(registry, Uniform(), RunKey("run", 0))
    router.constraints = Constraints(agents, tenants)
    return router


def asking(**context: Any) -> Task:
    return replace(CALL, context={**CALL.context, **context})


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (asking(tools=2), "does not support tools"),
        (asking(has_images=True), "does not support images"),
        (asking(has_schema=True), "does not support schema"),
        (asking(tokens=1_001), "takes prompts of 1,000 tokens; this one has about 1,001"),
        (asking(regions=["us", "asia"]), "runs in region 'eu'; the route allows 'us', 'asia'"),
    ],
)
def test_calls_go_to_agents_that_can_answer_them(task: Task, reason: str) -> None:
    small = agent("small", supports=(), max_input_tokens=1_000, region="eu")
    router = router_of(small, agent("large", region="us"))
    decision = router.decide(task)
    assert decision.chosen == "large@1"
    assert decision.propensity == 1.0
    assert {option.agent_version: option.excluded_by for option in decision.alternatives} == {
        "large@1": "",
        "small@1": reason,
    }
    assert len(router.screen(CALL).offers) == 2
    with pytest.raises(RoutingError, match=r"small@1: .*") as caught:
        router.decide(task, among=["small"])
    assert caught.value.kind == "unable"


@pytest.mark.parametrize("asked", ["has_images", "has_schema"])
def test_local_models_get_no_calls_that_they_would_answer_without_what_was_asked(asked: str) -> None:
    local = AgentConfig("local", "local_model", model="nano")
    router = router_of(local, agent("large"))
    assert router.decide(asking(**{asked: True})).chosen == "large@1"
    assert len(router.screen(asking(tools=1)).offers) == 2


def test_a_tenants_regions_hold_for_calls_and_tasks() -> None:
    tenants = (TenantConfig(name="shop", regions=("eu",)),)
    router = router_of(agent("near", region="eu"), agent("far", region="us"), agent("somewhere"), tenants=tenants)
    for task in (CALL, replace(CALL, environment="office", context={"regions": ["us"], "tokens": "many"})):
        reasons = {option.agent_version: option.excluded_by for option in router.decide(task).alternatives}
        assert reasons == {
            "near@1": "",
            "far@1": "runs in region 'us'; tenant 'shop' allows 'eu'",
            "somewhere@1": "has no region; tenant 'shop' allows 'eu'",
        }
    assert len(router.screen(replace(CALL, tenant="other")).offers) == 3


def test_an_episode_leaves_a_version_that_may_not_answer_its_next_call() -> None:
    router = router_of(agent("small", supports=("tools",)), agent("large"))
    first = router.decide(CALL, episode="e", among=["small"])
    assert first.chosen == "small@1"
    assert router.decide(replace(CALL, id="c2"), episode="e").is_sticky
    seen = router.decide(replace(asking(has_images=True), id="c3"), episode="e")
    assert (seen.chosen, seen.is_sticky) == ("large@1", False)


@pytest.fixture
def priced(tmp_path: Path) -> Any:
    """A router of agents that cost 0.7, 0.07 and an unknown number of thousandths of a USD."""
    prices: Mapping[str, PriceConfig] = {
        "dear@1": PriceConfig(input=1.0, output=1.0),
        "cheap@1": PriceConfig(input=0.1, output=0.1),
    }
    router = router_of(agent("dear"), agent("cheap"), agent("unpriced"))
    with Pool.open(tmp_path / "pool.db") as pool:
        consumption = Consumption(pool, tenant=ALL_TENANTS)
        router.objective = Objective(ObjectiveConfig(), consumption, prices.get)
        yield router


SHORT = replace(CALL, context={"tokens": 10})
EXPECTED = (FIRST.input_tokens + FIRST.output_tokens) / 1e6


def test_a_budget_excludes_what_would_exceed_it(priced: Router) -> None:
    decision = priced.decide(SHORT, budget_usd=EXPECTED / 2)
    assert {option.agent_version: option.excluded_by for option in decision.alternatives} == {
        "cheap@1": "",
        "unpriced@1": "",
        "dear@1": "expected to cost 0.0007 USD, and 0.00035 USD of the budget are left",
    }
    assert len(priced.decide(SHORT, budget_usd=EXPECTED).alternatives) == 3
    assert all(not option.excluded_by for option in priced.decide(SHORT, budget_usd=EXPECTED).alternatives)
    with pytest.raises(RoutingError, match="dear@1: expected to cost") as caught:
        priced.decide(SHORT, budget_usd=-0.1, among=["dear"])
    assert caught.value.kind == "over_budget"
    assert "and 0 USD of the budget are left" in str(caught.value)


def test_a_long_prompt_is_expected_to_cost_more(priced: Router) -> None:
    long = replace(CALL, context={"tokens": 100_000})
    decision = priced.decide(long, budget_usd=0.05)
    [dear] = [option for option in decision.alternatives if option.agent_version == "dear@1"]
    assert dear.excluded_by == "expected to cost 0.1 USD, and 0.05 USD of the budget are left"


def test_an_episode_that_is_over_budget_is_refused_and_keeps_its_version(priced: Router) -> None:
    first = priced.decide(SHORT, episode="e", among=["dear"])
    with pytest.raises(RoutingError, match="dear@1 serves episode 'e': expected to cost") as caught:
        priced.decide(replace(SHORT, id="c2"), episode="e", budget_usd=0.0)
    assert caught.value.kind == "over_budget"
    assert priced.decide(replace(SHORT, id="c3"), episode="e").chosen == first.chosen
