"""The registry of configured policies."""

from typing import get_args

import pytest

from upturn.arbiter import GaussianThompson, check_routing_policy, make_policy
from upturn.arbiter.policies.make import POLICIES
from upturn.config import USED_BY_POLICY, PolicyName, RoutingConfig

NAMES = get_args(PolicyName)


def test_every_name_has_a_policy_and_its_settings() -> None:
    assert set(POLICIES) == set(NAMES) == set(USED_BY_POLICY)


@pytest.mark.parametrize("name", NAMES)
def test_every_configured_policy_has_its_name_and_fulfils_the_contract(name: PolicyName) -> None:
    routing = RoutingConfig(policy=name, weights={"a": 1.0}, default_agent="a")
    assert make_policy(routing).name == name
    assert check_routing_policy(lambda: make_policy(routing)) == []


def test_settings_reach_the_policy() -> None:
    one = make_policy(RoutingConfig(policy="gaussian_thompson", window=7))
    assert one.snapshot() == GaussianThompson(window=7, floor=0.01).snapshot()
    assert one.snapshot() != make_policy(RoutingConfig(policy="gaussian_thompson")).snapshot()
