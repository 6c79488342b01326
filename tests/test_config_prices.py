"""The price table in the configuration."""

import json
from typing import Any

import pytest

from upturn.config import Config, PriceConfig
from upturn.errors import ConfigError
from upturn.loop.trainers.registry import parse_full_config

FAR = {"name": "far", "kind": "endpoint", "url": "http://localhost:1/v1", "model": "gpt-5.1"}
NEAR = FAR | {"name": "near"}
NANO = {"name": "nano", "kind": "local_model", "model": "nano"}
DEAR = {"input": 2, "output": 10.5, "cached_input": 0.25}


def parsed(agents: list[Any], prices: Any) -> Config:
    return parse_full_config({"agents": agents, "prices": prices, "loop": {"train": []}})


def problems_of(agents: list[Any], prices: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parsed(agents, prices)
    return caught.value.problems


def test_a_model_has_the_price_of_its_name_unless_its_agent_names_another() -> None:
    config = parsed([FAR, NEAR | {"price": "contract"}], {"gpt-5.1": DEAR, "contract": {"input": 1, "output": 1}})
    assert config.price_of("far", "gpt-5.1") == PriceConfig(2.0, 10.5, 0.25)
    assert config.price_of("near", "gpt-5.1") == PriceConfig(1.0, 1.0)
    assert config.price_of("far", "gpt-6") is None
    assert parse_full_config(json.loads(config.to_json())) == config


def test_a_local_model_has_no_price_unless_it_is_declared_for_all_its_versions() -> None:
    assert parsed([NANO], {}).price_of("nano", "") is None
    assert parsed([NANO], {"nano": DEAR}).price_of("nano", "") == PriceConfig(2.0, 10.5, 0.25)


@pytest.mark.parametrize(
    ("agents", "prices", "problem"),
    [
        ([FAR | {"price": "x"}], {"y": DEAR}, "agents[0].price = 'x' has no table [prices.\"x\"]; there is 'y'"),
        ([FAR], {"y": {"input": 1}}, "prices.y.output: missing"),
        ([FAR], {"y": DEAR | {"ouput": 1}}, "prices.y.ouput: unknown setting; did you mean 'output'?"),
        ([FAR], {"y": DEAR | {"input": -1}}, "prices.y.input: input should be greater than or equal to 0, got -1"),
        ([FAR], {"y": 3}, "prices.y: must be a table, got 3"),
        ([FAR], 3, "prices: must be tables [prices.NAME], got 3"),
        ([FAR], {"": DEAR}, "prices: must be tables [prices.NAME]"),
    ],
)
def test_wrong_prices_are_refused_by_name(agents: list[Any], prices: Any, problem: str) -> None:
    assert any(problem in message for message in problems_of(agents, prices)), problems_of(agents, prices)


def test_a_budget_without_any_price_is_refused() -> None:
    access = {"key_limits": {"usd_per_day": 5}, "tenants": [{"name": "shop", "usd_per_month": 9}]}
    with pytest.raises(ConfigError) as caught:
        parse_full_config({"agents": [FAR], "access": access, "loop": {"train": []}})
    cause = "has no effect without prices: no cost is known; add [prices.NAME] tables"
    assert list(caught.value.problems) == [
        f"access.key_limits.usd_per_day = 5.0 {cause}",
        f"access.tenants[0].usd_per_month = 9.0 {cause}",
    ]
    parse_full_config({"agents": [FAR], "access": access, "prices": {"gpt-5.1": DEAR}, "loop": {"train": []}})


def objective_problems(policy: str, objective: dict[str, float], **sections: Any) -> list[str]:
    routing = {"policy": policy, "objective": objective}
    with pytest.raises(ConfigError) as caught:
        parse_full_config({"agents": [FAR], "routing": routing, "loop": {"train": []}, **sections})
    return list(caught.value.problems)


def test_weights_need_a_policy_that_weighs_and_costs_need_prices() -> None:
    prices = {"gpt-5.1": DEAR}
    assert objective_problems("uniform", {"latency_weight": 0.1}) == [
        "routing.objective.latency_weight = 0.1 has no effect with routing.policy = 'uniform', which weighs "
        "neither costs nor latencies"
    ]
    assert objective_problems("cheapest", {}, prices=prices) == [
        "routing.policy = 'cheapest' needs routing.objective.cost_weight or latency_weight above 0; without them "
        "all agents are as cheap"
    ]
    assert objective_problems("thompson", {"cost_weight": 2.0}) == [
        "agents[0] ('far') has no price, but routing.objective.cost_weight = 2.0 weighs costs; add "
        '[prices."gpt-5.1"]'
    ]
    routing = {"policy": "cheapest", "objective": {"cost_weight": 1}}
    parse_full_config({"agents": [FAR], "prices": prices, "routing": routing, "loop": {"train": []}})


def test_regions_that_no_agent_has_are_refused() -> None:
    agents = [FAR | {"region": "us"}, NEAR]
    wanted = {"tenants": [{"name": "shop", "regions": ["eu"]}]}
    with pytest.raises(ConfigError) as caught:
        parse_full_config({"agents": agents, "access": wanted, "loop": {"train": []}})
    assert list(caught.value.problems) == [
        "access.tenants[0].regions = ['eu'] allows no agent; the regions of [[agents]] are: 'us'"
    ]
    routes = [{"name": "r", "regions": ["eu", "us"]}]
    parse_full_config({"agents": agents, "gateway": {"routes": routes}, "loop": {"train": []}})


def test_programs_answer_no_calls_and_support_nothing_in_them() -> None:
    program = {"name": "mine", "kind": "program", "url": "http://x", "model": "m", "import_path": "a:b"}
    [problem] = problems_of([program | {"supports": ["tools"]}], {})
    assert "supports = ('tools',) has no effect with agents[0].kind = 'program'" in problem


def test_a_route_hides_no_agent_of_its_name() -> None:
    routes = [{"name": "far", "agents": ["far", "near"]}]
    with pytest.raises(ConfigError) as caught:
        parse_full_config({"agents": [FAR, NEAR], "gateway": {"routes": routes}, "loop": {"train": []}})
    assert list(caught.value.problems) == [
        "gateway.routes[0].name = 'far' is the name of an agent, which calls would no longer reach; choose another "
        "name, or give the route this agent alone"
    ]
    alone = [{"name": "far", "agents": ["far"], "provider_tools": "strip"}]
    parse_full_config({"agents": [FAR, NEAR], "gateway": {"routes": alone}, "loop": {"train": []}})
