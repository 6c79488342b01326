"""The objective: forecasts, handicaps, and the probabilities that they change."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.arbiter.test_consumption import called, last
from upturn.arbiter import (
    AgentRegistry,
    Candidate,
    CheapestAboveBar,
    Consumption,
    Expected,
    HierarchicalThompson,
    Objective,
    Router,
    RoutingOutcome,
    RoutingPolicy,
    RunKey,
)
from upturn.config import ObjectiveConfig, PriceConfig
from upturn.pool import ALL_TENANTS, Pool
from upturn.records import AgentVersion, Decision, Forecast, Task

DEAR, CHEAP, UNPRICED = "dear@1", "cheap@1", "free@1"
PRICES = {DEAR: PriceConfig(input=10.0, output=100.0), CHEAP: PriceConfig(input=1.0, output=10.0)}
TASK = Task("t", "do", "mail", "call")


@pytest.fixture
def consumption(tmp_path: Path) -> Iterator[Consumption]:
    """Many calls in the family mail: 1,000 tokens read, 100 written; dear takes 1 s, cheap 3 s."""
    with Pool.open(tmp_path / "pool.db") as pool:
        for index in range(200):
            pool.append(*called(f"d{index}", DEAR, used=Expected(1_000, 0, 100, 1.0)))
            pool.append(*called(f"c{index}", CHEAP, used=Expected(1_000, 0, 100, 3.0)))
        read = Consumption(pool, tenant=ALL_TENANTS)
        read.follow(last(pool))
        yield read


def router_of(objective: Objective | None, policy: RoutingPolicy) -> Router:
    registry = AgentRegistry()
    for agent in ("dear", "cheap"):
        registry.add(AgentVersion(agent, "1", "endpoint"))
    return Router(registry, policy, RunKey("run", 0), objective=objective)


def test_handicaps_are_weighted_costs_and_seconds(consumption: Consumption) -> None:
    objective = Objective(ObjectiveConfig(cost_weight=10.0, latency_weight=0.01), consumption, PRICES.get)
    dear, cheap, unpriced = objective.forecasts("mail", (DEAR, CHEAP, UNPRICED))
    assert dear.cost_usd == pytest.approx(0.02, rel=0.02)
    assert cheap.cost_usd == pytest.approx(0.002, rel=0.02)
    assert dear.cost_usd is not None
    assert dear.handicap == pytest.approx(10 * dear.cost_usd + 0.01 * dear.seconds)
    assert unpriced.cost_usd is None
    assert unpriced.handicap == pytest.approx(10 * dear.cost_usd + 0.01 * unpriced.seconds)


def test_without_any_price_costs_weigh_nothing(consumption: Consumption) -> None:
    objective = Objective(ObjectiveConfig(cost_weight=10.0), consumption, lambda _: None)
    assert [forecast.handicap for forecast in objective.forecasts("mail", (DEAR, CHEAP))] == [0.0, 0.0]


def taught(policy: RoutingPolicy) -> RoutingPolicy:
    """dear succeeds in 90 %, cheap in 85 % of 200 tasks, evenly spread."""
    plain = router_of(None, policy)
    for index in range(200):
        decision = plain.decide(replace(TASK, id=f"l{index}"))
        for version, failures in ((DEAR, 20), (CHEAP, 30)):
            outcome = RoutingOutcome(decision.id, float(index * 37 % 200 >= failures))
            policy.learn(replace(decision, chosen=version, agent=version.partition("@")[0]), outcome)
    return policy


def shares(decision: Decision) -> dict[str, float]:
    return {option.agent_version: option.probability for option in decision.alternatives}


def test_costs_move_the_probabilities_and_stand_on_the_decision(consumption: Consumption) -> None:
    policy = taught(HierarchicalThompson(floor=0.01))
    free = Objective(ObjectiveConfig(), consumption, PRICES.get)
    weighed = Objective(ObjectiveConfig(cost_weight=10.0), consumption, PRICES.get)
    assert shares(router_of(free, policy).decide(TASK))[DEAR] > 0.8
    decision = router_of(weighed, policy).decide(TASK)  # .90 − .20 against .85 − .02
    assert shares(decision)[CHEAP] > 0.9
    assert "(handicap 0.2" in decision.reason
    forecasts = [option.forecast for option in decision.alternatives]
    assert forecasts == weighed.forecasts("mail", (CHEAP, DEAR))


def test_a_stored_decision_gives_the_same_probabilities_again(consumption: Consumption) -> None:
    policy = taught(HierarchicalThompson(floor=0.01))
    objective = Objective(ObjectiveConfig(cost_weight=1.0, latency_weight=0.003), consumption, PRICES.get)
    decision = router_of(objective, policy).decide(TASK)
    candidates = []
    for option in decision.alternatives:
        assert isinstance(option.forecast, Forecast)
        agent = option.agent_version.partition("@")[0]
        candidates.append(Candidate(agent, option.agent_version, option.forecast.handicap))
    assert list(policy.probabilities(TASK, candidates)) == list(shares(decision).values())


def test_the_cheapest_above_the_bar_is_that_with_the_lowest_forecast(consumption: Consumption) -> None:
    policy = taught(CheapestAboveBar(0.8, floor=0.01))
    by_cost = Objective(ObjectiveConfig(cost_weight=1.0), consumption, PRICES.get)
    by_time = Objective(ObjectiveConfig(latency_weight=1.0), consumption, PRICES.get)
    assert shares(router_of(by_cost, policy).decide(TASK))[CHEAP] == pytest.approx(0.995)
    assert shares(router_of(by_time, policy).decide(TASK))[DEAR] == pytest.approx(0.995)


def test_the_candidate_of_a_canary_has_a_forecast_but_no_say(consumption: Consumption) -> None:
    objective = Objective(ObjectiveConfig(cost_weight=10.0), consumption, PRICES.get)
    router = router_of(objective, HierarchicalThompson(floor=0.01))
    before = shares(router.decide(TASK))
    router.registry.start_canary("r1", AgentVersion("cheap", "2", "endpoint"), 0.25)
    after = router.decide(TASK)
    assert shares(after)["cheap@1"] + shares(after)["cheap@2"] == pytest.approx(before[CHEAP], abs=1e-12)
    [candidate] = [option for option in after.alternatives if option.agent_version == "cheap@2"]
    assert candidate.forecast is not None
    assert candidate.forecast.cost_usd is None
