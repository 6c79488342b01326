"""Episodes that may switch their agent at a price."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.arbiter.test_consumption import called, last
from upturn.arbiter import (
    AgentRegistry,
    Consumption,
    EpsilonGreedy,
    Expected,
    LoggedOutcome,
    Objective,
    Router,
    RoutingOutcome,
    RunKey,
    always,
    learned_target,
    self_normalised,
)
from upturn.arbiter.objective_value import weighed
from upturn.config import ObjectiveConfig, PriceConfig
from upturn.pool import ALL_TENANTS, Pool
from upturn.records import AgentVersion, Decision, Task

A, B = "a@1", "b@1"
PRICE = PriceConfig(input=10.0, output=0.0, cached_input=0.0)


@pytest.fixture
def consumption(tmp_path: Path) -> Iterator[Consumption]:
    """Calls that read 1,000 tokens, 900 of them from the cache."""
    with Pool.open(tmp_path / "pool.db") as pool:
        for index in range(200):
            for version in (A, B):
                pool.append(*called(f"{version}{index}", version, used=Expected(1_000, 900, 0, 1.0)))
        read = Consumption(pool, tenant=ALL_TENANTS)
        read.follow(last(pool))
        yield read


def router_of(consumption: Consumption, **weights: float) -> Router:
    """a succeeds in 60 %, b in 70 % of 10 tasks each."""
    registry = AgentRegistry()
    for agent in ("a", "b"):
        registry.add(AgentVersion(agent, "1", "endpoint"))
    objective = Objective(ObjectiveConfig(**weights), consumption, lambda _: PRICE)
    router = Router(registry, EpsilonGreedy(epsilon=0.02), RunKey("run", 0), objective=objective)
    for number in range(20):
        decision = Router(registry, router.policy, RunKey("run", 0)).decide(call(f"l{number}"))
        version, successes = ((A, 6), (B, 7))[number % 2]
        chosen = replace(decision, agent=version[0], chosen=version)
        router.policy.learn(chosen, RoutingOutcome(chosen.id, float(number // 2 < successes)))
    return router


def call(name: str) -> Task:
    return Task(name, "do", "mail", "call")


def shares(decision: Decision) -> dict[str, float]:
    return {option.agent_version: option.probability for option in decision.alternatives}


def begun(router: Router, agent: str) -> Decision:
    """The first decision of episode e, for this agent."""
    return router.decide(call("first"), episode="e", among=[agent])


def test_without_a_weight_an_episode_keeps_its_version(consumption: Consumption) -> None:
    router = router_of(consumption)
    begun(router, "a")
    later = router.decide(call("c2"), episode="e")
    assert (later.chosen, later.is_sticky, later.current) == (A, True, None)


@pytest.mark.parametrize(("weight", "leader"), [(0.0, B), (0.05, B), (0.1, A)])
def test_an_episode_switches_if_the_gain_is_larger_than_the_weight(
    consumption: Consumption, weight: float, leader: str
) -> None:
    """The posterior means are 7/12 and 8/12, .083 apart."""
    router = router_of(consumption, switch_weight=weight)
    begun(router, "a")
    later = router.decide(call("c2"), episode="e")
    assert shares(later)[leader] == pytest.approx(0.99)
    assert (later.is_sticky, later.current) == (False, A)
    assert router.remembered("default", "e") == later
    handicaps = {
        option.agent_version: option.forecast and option.forecast.handicap for option in later.alternatives
    }
    assert handicaps == {A: 0.0, B: weight}


def test_a_switch_loses_the_prompt_cache(consumption: Consumption) -> None:
    router = router_of(consumption, switch_weight=0.0, cost_weight=10.0)
    first = begun(router, "a")
    later = router.decide(call("c2"), episode="e")
    costs = {option.agent_version: option.forecast and option.forecast.cost_usd for option in later.alternatives}
    assert costs[A] == pytest.approx(100 * 10 / 1e6, rel=0.1)
    assert costs[B] == pytest.approx(1_000 * 10 / 1e6, rel=0.1)
    assert first.alternatives[0].forecast is not None
    assert first.alternatives[0].forecast.cost_usd == costs[A]
    assert shares(later)[A] == pytest.approx(0.99)  # 10 · 0.009 is more than .083


def test_a_call_that_may_not_switch_stays(consumption: Consumption) -> None:
    router = router_of(consumption, switch_weight=0.0)
    begun(router, "a")
    later = router.decide(call("c2"), episode="e", may_switch=False)
    assert (later.chosen, later.is_sticky) == (A, True)


@pytest.mark.parametrize("weight", [0.999999, 0.000001])
def test_an_episode_that_comes_back_has_the_same_arm(consumption: Consumption, weight: float) -> None:
    router = router_of(consumption, switch_weight=0.0)
    router.registry.start_canary("r", AgentVersion("b", "2", "endpoint"), weight)
    first = begun(router, "b")
    arm, version = ("candidate", "b@2") if weight > 0.5 else ("control", B)
    kept = router.decide(call("c2"), episode="e", among=["b"])
    away = router.decide(call("c3"), episode="e", among=["a"])
    back = router.decide(call("c4"), episode="e", among=["b"])
    assert (away.chosen, away.arm) == (A, None)
    for decision in (first, kept, back):
        assert (decision.chosen, decision.arm, decision.release) == (version, arm, "r")
    assert kept.propensity == 1.0
    other = B if weight > 0.5 else "b@2"
    reasons = {option.agent_version: option.excluded_by for option in kept.alternatives}
    assert reasons[other] == f"the episode has {version}"


def test_off_policy_estimates_weigh_each_decision_that_could_switch(consumption: Consumption) -> None:
    router = router_of(consumption, switch_weight=0.05)
    begun(router, "a")
    switched = router.decide(call("c2"), episode="e")
    assert switched.chosen == B
    kept = router.decide(call("c3"), episode="e", may_switch=False)
    logged = [LoggedOutcome(switched, 1.0), LoggedOutcome(kept, 0.5)]
    estimate = self_normalised(logged, always(B))
    assert estimate.max_weight == pytest.approx(1 / 0.99)
    assert estimate.value == pytest.approx(0.75)
    values, scale = weighed(logged, ObjectiveConfig(switch_weight=0.1))
    assert [scale.lowest + scale.width * (value.reward or 0.0) for value in values] == pytest.approx([0.9, 0.5])
    stays = learned_target(EpsilonGreedy(epsilon=0.02), logged)
    assert stays(switched) == {A: 1.0}
    weighs = learned_target(EpsilonGreedy(epsilon=0.02), logged, weights=ObjectiveConfig(switch_weight=0.1))
    assert weighs(switched) == {A: pytest.approx(0.99), B: pytest.approx(0.01)}
