"""The configured policy gradient: defaults, presets, changes, and what is refused before any work."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from upturn.config import Config, OptimiserSettings
from upturn.errors import ConfigError
from upturn.loop.trainers import parse_full_config
from upturn.loop.trainers.rl_training import continuation_count
from upturn.training.advantages import AdvantageSettings, LagrangianSettings
from upturn.training.algorithms.grpo import PRESETS, GrpoSettings, preset
from upturn.training.algorithms.grpo.settings import PresetName
from upturn.training.policy_settings import (
    DynamicSamplingSettings,
    KlSettings,
    MismatchSettings,
    ObjectiveSettings,
    PartialSettings,
)

NANO: dict[str, Any] = {"name": "nano", "kind": "local_model", "model": "nano"}


def config_of(grpo: dict[str, Any], **sections: Any) -> Config:
    return parse_full_config({"agents": [NANO], "grpo": grpo, **sections})


def settings_of(**grpo: Any) -> GrpoSettings:
    return config_of(grpo).section(GrpoSettings)


def problems_of(**grpo: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        settings_of(**grpo)
    return caught.value.problems


def test_an_empty_section_has_the_default_settings() -> None:
    assert settings_of() == GrpoSettings()
    assert settings_of().objective.clips == (0.2, 0.28)


def test_preset_names_match_the_presets() -> None:
    assert get_args(PresetName) == tuple(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_does_not_set_length_and_learning_rate(name: str) -> None:
    settings = settings_of(preset=name, iterations=7, optimiser={"learning_rate": 3e-4})
    expected = replace(preset(name), iterations=7, optimiser=OptimiserSettings(learning_rate=3e-4))
    assert settings == expected
    if expected.objective.aggregation == "constant":
        assert expected.objective.constant_tokens == 16 * 64  # turns and tokens of an action in [environment]


def test_a_constant_follows_the_environment_unless_it_is_set() -> None:
    limits = {"max_turns": 3, "max_action_tokens": 5}
    for objective, expected in (({}, 15), ({"constant_tokens": 7}, 7)):
        config = config_of({"preset": "rloo", "objective": objective}, environment=limits)
        assert config.section(GrpoSettings).objective.constant_tokens == expected


def test_the_section_overrides_the_preset() -> None:
    settings = settings_of(
        preset="dapo",
        minibatches=5,
        passes=3,
        dynamic_sampling=False,
        objective={"clip_high": 0.4, "kl": {"coefficient": 0.01}},
        advantage={"scale": "none", "gamma": 0.9},
    )
    assert settings == replace(
        preset("dapo"),
        minibatches=5,
        passes=3,
        objective=ObjectiveSettings(clip_low=0.2, clip_high=0.4, kl=KlSettings(0.01)),
        advantage=AdvantageSettings(gamma=0.9),
        dynamic_sampling=None,
    )


def test_nested_tables_are_read() -> None:
    settings = settings_of(
        objective={
            "kind": "cispo",
            "clip_low": 1.0,
            "aggregation": "constant",
            "kl": {"coefficient": 0.1, "estimator": "k1", "unbiased": True, "target": 0.02, "horizon": 500},
        },
        dynamic_sampling={"max_rounds": 4},
        cost_limits={"safety": 0.1},
        mismatch={"weight": "token", "weight_cap": 2.0, "mask": "k3", "mask_high": 0.01},
        advantage={"estimator": "tree", "turn_weight": 0.5},
    )
    assert settings.objective == ObjectiveSettings(
        "cispo",
        clip_low=1.0,
        aggregation="constant",
        constant_tokens=1024,
        kl=KlSettings(0.1, "k1", unbiased=True, target=0.02, horizon=500),
    )
    assert settings.dynamic_sampling == DynamicSamplingSettings(max_rounds=4)
    assert settings.mismatch == MismatchSettings("token", 2.0, "k3", None, 0.01)
    assert settings.advantage == AdvantageSettings(estimator="tree", turn_weight=0.5)
    assert settings.cost_limits == {"safety": 0.1}


def test_optional_tables_are_switched_on_and_off() -> None:
    assert settings_of(mismatch=True, dynamic_sampling=True) == replace(
        GrpoSettings(), mismatch=MismatchSettings(), dynamic_sampling=DynamicSamplingSettings()
    )
    assert settings_of(preset="grpo", objective={"kl": False}).objective.kl is None
    assert settings_of(preset="grpo", objective={"kl": {"estimator": "k2"}}).objective.kl == KlSettings(0.04, "k2")
    unwatched = settings_of(evaluate_every=False, keep="final")
    assert unwatched == replace(GrpoSettings(), evaluate_every=None, keep="final")


def test_the_cost_limits_of_a_preset_can_be_changed_and_left_out() -> None:
    assert settings_of(preset="agent_recipe").cost_limits == {"safety": 0.02}
    for limits in ({}, {"error": 0.5}):
        assert settings_of(preset="agent_recipe", cost_limits=limits).cost_limits == limits


def test_overriding_the_aggregation_of_a_preset_drops_its_constant() -> None:
    settings = settings_of(preset="dr_grpo", objective={"aggregation": "token_mean"})
    assert settings.objective.constant_tokens is None


@pytest.mark.parametrize(
    ("change", "side"),
    [
        ({"staleness": 2}, "staleness=2 samples with earlier ones"),
        ({"dynamic_sampling": {"max_rounds": 3}}, "dynamic_sampling (max_rounds=3) samples further ones"),
        ({"advantage": {"estimator": "monte_carlo"}}, "advantage.estimator='monte_carlo' measures"),
    ],
)
def test_partial_rollouts_exclude_what_needs_whole_iterations(change: dict[str, Any], side: str) -> None:
    (problem,) = problems_of(partial={"extra_tasks": 3}, **change)
    assert problem.startswith("grpo: partial (extra_tasks=3)") and side in problem
    assert settings_of(partial={"extra_tasks": 3}).partial == PartialSettings(3, 4)


def test_staleness_and_dynamic_sampling_exclude_each_other() -> None:
    (problem,) = problems_of(dynamic_sampling={"max_rounds": 3}, staleness=2)
    assert problem.startswith("grpo: staleness=2 samples with earlier weights, dynamic_sampling (max_rounds=3)")
    assert settings_of(staleness=2) == replace(GrpoSettings(), staleness=2)


def test_all_problems_are_reported_with_their_section() -> None:
    problems = problems_of(
        objective={"kind": "gspo", "dual_clip": 3.0},
        mismatch={"weight": "token"},
        advantage={"scale": "mean", "baseline": "leave_one_out"},
    )
    assert sorted(problem.split(" ")[0:2] for problem in problems) == [
        ["grpo.advantage:", "scale='mean'"],
        ["grpo.mismatch:", "weight='token'"],
        ["grpo.objective:", "dual_clip=3.0"],
        ["grpo.objective:", "kind='gspo'"],
    ]


def test_settings_without_effect_are_refused() -> None:
    (problem,) = problems_of(objective={"kl": {"estimator": "k2"}})
    assert problem == "grpo.objective.kl.coefficient: missing; it has no default; set it"
    (problem,) = problems_of(advantage={"baseline": "none", "scale": "whiten"}, dynamic_sampling=True)
    assert problem.startswith("grpo: dynamic_sampling would do nothing with advantage.baseline='none'")


def test_bounds_on_a_constant_ratio_are_refused_if_set_by_the_user() -> None:
    """Clips of a preset are dropped instead, which changes nothing."""
    (problem,) = problems_of(preset="grpo", mismatch=True, objective={"clip_high": 0.3})
    assert problem.startswith(
        "grpo: objective.clip_high=0.3 would do nothing with minibatches=1, passes=1 and mismatch"
    )
    (problem,) = problems_of(preset="gspo", minibatches=1, mismatch=True)
    assert problem.startswith("grpo: objective.kind='gspo' would do nothing")
    for name in PRESETS:
        settings = settings_of(preset=name, mismatch=True)
        assert settings.mismatch == MismatchSettings()
        is_one = settings.minibatches == settings.passes == 1
        assert settings.objective.clips == ((0.2, 0.28) if is_one else preset(name).objective.clips)


def test_groups_of_one_are_accepted_where_nothing_is_compared() -> None:
    assert settings_of(preset="reinforce_pp", group_size=1) == replace(preset("reinforce_pp"), group_size=1)
    for estimator in ("monte_carlo", "divergence"):
        settings_of(group_size=1, advantage={"estimator": estimator})
    comparing: tuple[dict[str, Any], ...] = (
        {},
        {"preset": "reinforce_pp_baseline"},
        *({"advantage": {"estimator": name}} for name in ("turn", "state", "tree")),
        {"advantage": {"estimator": "monte_carlo", "turn_weight": 0.5}},
    )
    for grpo in comparing:
        (problem,) = problems_of(group_size=1, **grpo)
        assert problem.startswith("grpo: group_size=1 leaves advantage.estimator='"), grpo


def test_state_values_are_measured_only_where_the_estimator_needs_them() -> None:
    cases: tuple[tuple[dict[str, Any], int], ...] = (
        ({}, 0),
        ({"estimator": "tree"}, 0),
        ({"estimator": "monte_carlo"}, 8),
        ({"estimator": "divergence", "continuations": 64}, 64),
    )
    for section, expected in cases:
        assert continuation_count(settings_of(advantage=section).advantage) == expected
    (problem,) = problems_of(advantage={"estimator": "tree", "continuations": 4})
    assert problem.startswith("grpo.advantage: continuations=4 would do nothing with estimator='tree'")


def test_budgets_of_costs_reach_the_multipliers() -> None:
    budgets = {"budgets": {"safety": 0.01}}
    assert settings_of(advantage={"lagrangian": budgets}).advantage.lagrangian == LagrangianSettings(
        {"safety": 0.01}
    )
    settings = settings_of(advantage={"lagrangian": {**budgets, "rate": 0.5}})
    assert settings.advantage.lagrangian == LagrangianSettings({"safety": 0.01}, rate=0.5)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"lagrangian": {"rate": 0.5}}, "grpo.advantage.lagrangian.budgets: missing"),
        (
            {"estimator": "monte_carlo", "lagrangian": {"budgets": {"error": 1.0}}},
            "grpo.advantage: lagrangian does not go with estimator",
        ),
        ({"value_range": 2.0}, "grpo.advantage: value_range=2.0 would do nothing with estimator='trajectory'"),
        ({"estimator": "turn", "anchor": "observation"}, "grpo.advantage: anchor='observation' would do nothing"),
        ({"estimator": "tree", "is_shaped": True}, "grpo.advantage: is_shaped=True would do nothing with"),
    ],
)
def test_options_of_another_estimator_are_refused(section: dict[str, Any], problem: str) -> None:
    assert problems_of(advantage=section)[0].startswith(problem)
