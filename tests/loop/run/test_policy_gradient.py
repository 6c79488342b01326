"""The configured policy gradient: defaults, presets, changes, and what is refused before any work."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from upturn.config import Config, parse_config
from upturn.config.learning import PresetName
from upturn.errors import ConfigError
from upturn.loop.run.policy_gradient import algorithm_settings, continuations
from upturn.loop.run.preflight import check_names
from upturn.loop.run.task_source import kit_of
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.config import OptimiserSettings
from upturn.training.advantages import AdvantageSettings
from upturn.training.algorithms.grpo import PRESETS, preset
from upturn.training.policy_settings import (
    DynamicSamplingSettings,
    KlSettings,
    MismatchSettings,
    ObjectiveSettings,
)

NANO: dict[str, Any] = {"name": "nano", "kind": "local_model", "model": "nano-errands"}


def config_of(grpo: dict[str, Any], **sections: Any) -> Config:
    return parse_config({"agents": [NANO], "grpo": grpo, **sections})


def settings_of(**grpo: Any) -> GrpoSettings:
    return algorithm_settings(config_of(grpo))


def problems_of(**grpo: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        settings_of(**grpo)
    return caught.value.problems


def test_defaults_are_those_of_the_settings() -> None:
    assert settings_of() == GrpoSettings()
    assert settings_of().objective.clips == (0.2, 0.28)


def test_configuration_and_training_name_the_same_presets() -> None:
    assert get_args(PresetName) == tuple(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_taken_but_for_how_long_and_how_fast(name: str) -> None:
    found = settings_of(preset=name, iterations=7, learning_rate=3e-4)
    expected = replace(preset(name), iterations=7, optimiser=OptimiserSettings(learning_rate=3e-4))
    if expected.objective.aggregation == "constant":  # 16 turns of 64 tokens, as LONGEST has it
        assert expected.objective.constant_tokens == 16 * 64
    assert found == expected


def test_what_is_said_changes_the_preset() -> None:
    found = settings_of(
        preset="dapo",
        minibatches=5,
        algorithm={"clip_high": 0.4, "passes": 3, "sampling_rounds": 1, "kl": {"coefficient": 0.01}},
        advantage={"scale": "none", "gamma": 0.9},
    )
    assert found == replace(
        preset("dapo"),
        iterations=40,
        minibatches=5,
        passes=3,
        objective=ObjectiveSettings(clip_low=0.2, clip_high=0.4, kl=KlSettings(0.01)),
        advantage=AdvantageSettings(gamma=0.9),
        dynamic_sampling=None,
    )


def test_every_section_below_reaches_the_settings() -> None:
    found = settings_of(
        algorithm={
            "kind": "cispo",
            "clip_low": 1.0,
            "stale_limit": None,
            "aggregation": "constant",
            "sampling_rounds": 4,
            "cost_limits": {"safety": 0.1},
            "kl": {"coefficient": 0.1, "estimator": "k1", "unbiased": True, "target": 0.02, "horizon": 500},
            "mismatch": {"recompute": True, "weight": "token", "weight_cap": 2.0, "mask": "k3", "mask_high": 0.01},
        },
        advantage={"estimator": "tree", "turn_weight": 0.5},
    )
    assert found.objective == ObjectiveSettings(
        "cispo",
        clip_low=1.0,
        aggregation="constant",
        constant_tokens=1024,
        kl=KlSettings(0.1, "k1", unbiased=True, target=0.02, horizon=500),
    )
    assert found.dynamic_sampling == DynamicSamplingSettings(max_rounds=4)
    assert found.mismatch == MismatchSettings("token", 2.0, "k3", None, 0.01)
    assert found.advantage == AdvantageSettings(estimator="tree", turn_weight=0.5)
    assert found.cost_limits == {"safety": 0.1}


def test_the_divergence_of_a_preset_can_be_changed_and_left_out() -> None:
    assert settings_of(preset="grpo", algorithm={"kl": {"coefficient": 0.0}}).objective.kl is None
    changed = settings_of(preset="grpo", algorithm={"kl": {"estimator": "k2"}}).objective.kl
    assert changed == KlSettings(0.04, "k2")


def test_the_limits_of_a_preset_can_be_changed_and_left_out() -> None:
    for own, expected in ((None, {"safety": 0.02}), ({}, {}), ({"error": 0.5}, {"error": 0.5})):
        assert settings_of(preset="agent_recipe", algorithm={"cost_limits": own}).cost_limits == expected


def test_leaving_a_presets_constant_leaves_its_tokens_too() -> None:
    found = settings_of(preset="dr_grpo", algorithm={"aggregation": "token_mean"})
    assert found.objective.constant_tokens is None


def test_sampling_ahead_and_drawing_more_with_present_weights_exclude_each_other() -> None:
    (found,) = problems_of(algorithm={"sampling_rounds": 3, "staleness": 2})
    assert found.startswith(
        "grpo.algorithm: staleness=2 samples with earlier weights, dynamic sampling (sampling_ro"
    )
    assert settings_of(algorithm={"staleness": 2}) == settings_of()


def test_all_problems_are_named_together_with_their_section() -> None:
    found = problems_of(
        algorithm={
            "kind": "gspo",
            "dual_clip": 3.0,
            "mismatch": {"weight": "token", "weight_cap": 2.0},
        },
        advantage={"scale": "mean", "baseline": "leave_one_out"},
    )
    assert [problem.split(" ")[:2] for problem in found] == [
        ["grpo.algorithm:", "mismatch.weight"],
        ["grpo.algorithm:", "dual_clip=3.0"],
        ["grpo.algorithm:", "kind='gspo'"],
        ["grpo.advantage:", "scale='mean'"],
    ]


def test_what_would_do_nothing_is_refused() -> None:
    (found,) = problems_of(algorithm={"kl": {"estimator": "k2"}})
    assert found == "grpo.algorithm: kl.estimator would do nothing without kl.coefficient; set it"
    (found,) = problems_of(algorithm={"mismatch": {"mask": "k3", "mask_high": 0.1}})
    assert found.endswith(
        "mismatch.mask and mismatch.mask_high would do nothing with mismatch.recompute = false; set it to true"
    )
    (found,) = problems_of(advantage={"baseline": "none", "scale": "whiten"}, algorithm={"sampling_rounds": 2})
    assert found.startswith("grpo: dynamic_sampling would do nothing with advantage.baseline='none'")


def test_bounds_on_a_ratio_that_is_always_1_are_refused_where_they_were_chosen() -> None:
    """A preset's own clips were not: they are left out, which changes nothing."""
    own: dict[str, Any] = {"mismatch": {"recompute": True}}
    (found,) = problems_of(preset="grpo", algorithm={**own, "clip_high": 0.3})
    assert found.startswith(
        "grpo: objective.clip_high=0.3 would do nothing with minibatches=1, passes=1 and mismatch"
    )
    (found,) = problems_of(preset="gspo", minibatches=1, algorithm=own)
    assert found.startswith("grpo: objective.kind='gspo' would do nothing")
    for name in PRESETS:
        settings = settings_of(preset=name, algorithm=own)
        assert settings.mismatch == MismatchSettings()
        is_one = settings.minibatches == settings.passes == 1
        assert settings.objective.clips == ((0.2, 0.28) if is_one else preset(name).objective.clips)


def test_one_attempt_is_enough_where_none_are_compared() -> None:
    assert settings_of(preset="reinforce_pp", attempts=1) == settings_of(preset="reinforce_pp")
    for estimator in ("monte_carlo", "divergence"):
        settings_of(attempts=1, advantage={"estimator": estimator})
    comparing: tuple[dict[str, Any], ...] = (
        {},
        {"preset": "reinforce_pp_baseline"},
        *({"advantage": {"estimator": name}} for name in ("turn", "state", "tree")),
        {"advantage": {"estimator": "monte_carlo", "turn_weight": 0.5}},
    )
    for grpo in comparing:
        (found,) = problems_of(attempts=1, **grpo)
        assert found.startswith("grpo: attempts=1 leaves advantage.estimator='"), grpo


def test_it_is_checked_before_any_work() -> None:
    config = config_of({"algorithm": {"kind": "gspo"}})
    with pytest.raises(ConfigError, match=r"grpo\.algorithm: kind='gspo' is a mean over each sequence"):
        check_names(config, kit_of(config))


def test_values_of_states_are_measured_only_where_the_estimator_needs_them() -> None:
    cases: tuple[tuple[dict[str, Any], int], ...] = (
        ({}, 0),
        ({"estimator": "tree"}, 0),
        ({"estimator": "monte_carlo"}, 8),
        ({"estimator": "divergence", "continuations": 64}, 64),
    )
    for section, expected in cases:
        config = config_of({"advantage": section})
        assert continuations(config, algorithm_settings(config)) == expected
    (found,) = problems_of(advantage={"estimator": "tree", "continuations": 4})
    assert found.startswith("grpo.advantage: continuations=4 would do nothing with estimator='tree'")
