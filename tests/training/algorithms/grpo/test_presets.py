"""Presets: each field matches its paper, and each preset learns a toy with a known answer."""

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import ConfigError
from upturn.training.advantages import AdvantageSettings
from upturn.training.algorithms.grpo import PRESETS, GrpoSettings, preset, run_grpo
from upturn.training.policy_settings import DynamicSamplingSettings, KlSettings, ObjectiveSettings
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.run_folder import CURVE_FILE

STD = AdvantageSettings(scale="std")
EXPECTED: dict[str, dict[str, object]] = {
    # (G, loss) as in arXiv 2402.03300: eq. 3 and section 4.2: β = .04, one update for each exploration stage
    "grpo": {
        "minibatches": 1,
        "objective": ObjectiveSettings("clipped", 0.2, 0.2, aggregation="sequence_mean", kl=KlSettings(0.04, "k3")),
        "advantage": STD,
    },
    # arXiv 2503.20783: neither the deviation nor the length of a response
    "dr_grpo": {"objective": ObjectiveSettings("clipped", 0.2, 0.2, aggregation="constant", constant_tokens=1024)},
    # arXiv 2402.14740
    "rloo": {
        "minibatches": 1,
        "objective": ObjectiveSettings("clipped", 0.2, 0.2, aggregation="constant", constant_tokens=1024),
        "advantage": AdvantageSettings(baseline="leave_one_out"),
    },
    # arXiv 2503.14476, eq. 8–12 and section 4.1
    "dapo": {
        "objective": ObjectiveSettings("clipped", 0.2, 0.28, aggregation="token_mean"),
        "advantage": STD,
        "dynamic_sampling": DynamicSamplingSettings(groups=None, max_rounds=3),
    },
    # arXiv 2507.18071, section 5.1
    "gspo": {
        "minibatches": 4,
        "objective": ObjectiveSettings("gspo", 3e-4, 4e-4, aggregation="sequence_mean"),
        "advantage": STD,
    },
    # arXiv 2506.13585, eq. 4 and 5
    "cispo": {"objective": ObjectiveSettings("cispo", 1.0, 4.0), "advantage": STD},
    # arXiv 2511.20347, eq. 5 to 7
    "sapo": {"objective": ObjectiveSettings("sapo", aggregation="sequence_mean"), "advantage": STD},
    # arXiv 2602.10693 and the authors' scripts: GRPO's advantages, verl's token mean, no KL
    "vespo": {"minibatches": 4, "objective": ObjectiveSettings("vespo"), "advantage": STD},
    # arXiv 2501.03262
    "reinforce_pp": {
        "objective": ObjectiveSettings("clipped", 0.2, 0.2, kl=KlSettings(0.01, "k2")),
        "advantage": AdvantageSettings(baseline="none", scale="whiten"),
    },
    "reinforce_pp_baseline": {
        "objective": ObjectiveSettings("clipped", 0.2, 0.2, kl=KlSettings(0.01, "k2")),
        "advantage": AdvantageSettings(baseline="group_mean", scale="whiten"),
    },
    # arXiv 2601.05242, eq. 4 to 6
    "gdpo": {
        "objective": ObjectiveSettings("clipped", 0.2, 0.2, aggregation="sequence_mean"),
        "advantage": AdvantageSettings("components", scale="whiten"),
    },
    # arXiv 2508.08221
    "lite_ppo": {
        "objective": ObjectiveSettings("clipped", 0.2, 0.2),
        "advantage": AdvantageSettings(scale="batch_std"),
    },
    # arXiv 2510.13786
    "scale_rl": {
        "objective": ObjectiveSettings("cispo", 1.0, 4.0),
        "advantage": AdvantageSettings(scale="batch_std"),
    },
    "agent_recipe": {
        "minibatches": 1,
        "objective": ObjectiveSettings("clipped", 0.1, 0.1, kl=KlSettings(0.04, "k3", unbiased=True)),
        "cost_limits": {"safety": 0.02},
    },
}


def test_presets_match_their_names() -> None:
    assert tuple(PRESETS) == tuple(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_every_field_is_as_expected(name: str) -> None:
    expected = GrpoSettings(**EXPECTED[name])  # type: ignore[arg-type]
    for field in fields(GrpoSettings):
        if field.name == "preset":
            continue
        assert getattr(preset(name), field.name) == getattr(expected, field.name), field.name


def test_departures_of_the_recipe_are_real() -> None:
    """Each departure names a property of the settings, so that text and preset stay consistent."""
    recipe = PRESETS["agent_recipe"]
    assert preset("agent_recipe").advantage.scale == "none"
    assert preset("agent_recipe").objective.aggregation == "token_mean"
    kl = preset("agent_recipe").objective.kl
    assert kl is not None and kl.unbiased
    assert preset("agent_recipe").cost_limits
    assert "the first 500 on levels 1 and 2 only" in recipe.source
    assert not {field.name for field in fields(GrpoSettings)} & {"levels", "curriculum", "families"}
    assert [departure for departure in recipe.departures if departure.startswith("no curriculum: ")]
    assert len(recipe.departures) == 6


def test_an_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="unknown preset 'ppo'; known: grpo, dr_grpo, "):
        preset("ppo")


@pytest.mark.parametrize(
    "name", [name if name in {"dapo", "cispo"} else pytest.param(name, marks=pytest.mark.slow) for name in PRESETS]
)
def test_copying_is_learned_to_95_percent(
    name: str, tiny_model: Callable[..., PreTrainedModel], copy_task: Callable[..., Any], tmp_path: Path
) -> None:
    """From a success rate of 1/20, with the preset's objective, advantages, KL and sampling."""
    task = copy_task(tiny_model())
    settings = replace(
        preset(name),
        iterations=100,
        optimiser=OptimiserSettings(learning_rate=5e-3),
        target_score=0.95,
        checkpoint_every=100,
        cost_limits={},
    )
    outcome = run_grpo(
        task.model,
        task.collect,
        settings,
        RunOptions(0, tmp_path, evaluate=task.score),
        refill=task.refill if settings.dynamic_sampling else None,
    )
    assert outcome.stopped == "target"
    assert task.score(0) >= 0.95
    last = read_curve(tmp_path / CURVE_FILE)[-1].metrics
    assert ("kl_reference" in last) == (settings.objective.kl is not None)
    assert ("sampling_rounds" in last) == (settings.dynamic_sampling is not None)
