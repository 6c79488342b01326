"""The configured turn credit: what ``[grpo.advantage]`` says reaches the estimator, or is refused by name."""

from typing import Any

import pytest

from upturn.config import parse_config
from upturn.config.learning import AdvantageConfig
from upturn.errors import ConfigError
from upturn.loop.run.policy_gradient import algorithm_settings
from upturn.training.advantages import AdvantageSettings, LagrangianSettings


def advantage_of(**section: Any) -> AdvantageSettings:
    agent = {"name": "nano", "kind": "local_model", "model": "nano-errands"}
    return algorithm_settings(parse_config({"agents": [agent], "grpo": {"advantage": section}})).advantage


def test_the_section_has_every_option_of_the_settings() -> None:
    options = set(AdvantageSettings.__dataclass_fields__) - {"lagrangian"}
    assert set(AdvantageConfig.model_fields) == {*options, "continuations", "cost_budgets", "multiplier_rate"}


def test_budgets_of_costs_reach_the_multipliers() -> None:
    assert advantage_of().lagrangian is None
    assert advantage_of(cost_budgets={}).lagrangian is None
    assert advantage_of(cost_budgets={"safety": 0.01}).lagrangian == LagrangianSettings({"safety": 0.01})
    found = advantage_of(cost_budgets={"safety": 0.01}, multiplier_rate=0.5).lagrangian
    assert found == LagrangianSettings({"safety": 0.01}, rate=0.5)


@pytest.mark.parametrize(
    "section",
    [
        {"estimator": "divergence", "error_probability": 0.1, "value_range": 2.0},
        {"estimator": "state", "anchor": "observation"},
        {"estimator": "turn", "is_shaped": True, "gamma": 0.9},
        {"is_shaped": True},
    ],
)
def test_options_of_one_estimator_reach_it(section: dict[str, Any]) -> None:
    assert advantage_of(**section) == AdvantageSettings(**section)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"multiplier_rate": 0.5}, "multiplier_rate would do nothing without cost_budgets"),
        ({"estimator": "monte_carlo", "cost_budgets": {"error": 1.0}}, "lagrangian does not go with estimator"),
        ({"value_range": 2.0}, "value_range=2.0 would do nothing with estimator='trajectory'"),
        ({"estimator": "turn", "anchor": "observation"}, "anchor='observation' would do nothing with"),
        ({"estimator": "tree", "is_shaped": True}, "is_shaped=True would do nothing with estimator='tree'"),
        ({"estimator": "monte_carlo", "error_probability": 0.1}, "error_probability=0.1 would do nothing with"),
    ],
)
def test_options_of_another_estimator_are_refused(section: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        advantage_of(**section)
    assert caught.value.problems[0].startswith(f"grpo.advantage: {problem}")
