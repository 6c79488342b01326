"""Settings of evaluations, stopping and keeping weights are refused with the same messages in all sections."""

from collections.abc import Callable

import pytest

from upturn.errors import ConfigError
from upturn.training.algorithms.dpo import DpoSettings
from upturn.training.algorithms.expert_iteration import ImitationSettings
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.algorithms.kto import KtoSettings
from upturn.training.algorithms.mixture import MixtureSettings
from upturn.training.algorithms.online_dpo import OnlineDpoSettings
from upturn.training.algorithms.ppo import PpoSettings
from upturn.training.algorithms.sft import SftSettings
from upturn.training.runs.run_folder import RunPlan

PLANNED: dict[str, Callable[..., object]] = {
    "grpo": GrpoSettings,
    "ppo": PpoSettings,
    "imitation": ImitationSettings,
    "mixture": MixtureSettings,
    "online-dpo": OnlineDpoSettings,
    "a run's plan": lambda **changes: RunPlan(**{"units": 3, "checkpoint_every": 1, **changes}),
}
SETTINGS = {name: make for name, make in PLANNED.items() if name != "a run's plan"}
WITH_EVALUATIONS: dict[str, Callable[..., object]] = {
    "sft": SftSettings,
    "dpo": DpoSettings,
    "kto": KtoSettings,
    **PLANNED,
}


@pytest.mark.parametrize("make", WITH_EVALUATIONS.values(), ids=WITH_EVALUATIONS)
def test_settings_that_need_evaluations_are_refused_without_them(make: Callable[..., object]) -> None:
    with pytest.raises(ConfigError) as caught:
        make(evaluate_every=None, patience=2, keep="best")
    assert sorted(caught.value.problems) == [
        "keep='best' would do nothing with evaluate_every=None; set evaluate_every, or keep='final'",
        "patience=2 would do nothing with evaluate_every=None; set evaluate_every or leave it out",
    ]


@pytest.mark.parametrize("make", [SftSettings, DpoSettings, KtoSettings, *SETTINGS.values()])
def test_counts_below_one_are_refused(make: Callable[..., object]) -> None:
    with pytest.raises(ConfigError) as caught:
        make(evaluate_every=0, patience=0, keep="final", checkpoint_every=0)
    assert sorted(caught.value.problems) == [
        "checkpoint_every: input should be greater than or equal to 1, got 0",
        "evaluate_every: input should be greater than or equal to 1, got 0",
        "patience: input should be greater than or equal to 1, got 0",
    ]


@pytest.mark.parametrize("make", PLANNED.values(), ids=PLANNED)
def test_targets_and_limits_need_evaluations_and_limits_need_the_best_weights(make: Callable[..., object]) -> None:
    with pytest.raises(ConfigError) as caught:
        make(evaluate_every=None, keep="final", target_score=0.9, cost_limits={"harm": 0.0, "risk": 0.5})
    assert sorted(caught.value.problems) == [
        "cost_limits on 'harm', 'risk' would do nothing with evaluate_every=None; set evaluate_every or leave it "
        "out",
        "cost_limits on 'harm', 'risk' would do nothing with keep='final', which keeps weights that break them; "
        "set keep='best'",
        "target_score=0.9 would do nothing with evaluate_every=None; set evaluate_every or leave it out",
    ]


@pytest.mark.parametrize("make", SETTINGS.values(), ids=SETTINGS)
def test_targets_and_limits_are_finite(make: Callable[..., object]) -> None:
    with pytest.raises(ConfigError) as caught:
        make(evaluate_every=1, keep="best", target_score=float("inf"), cost_limits={"harm": float("nan")})
    assert sorted(caught.value.problems) == [
        "cost_limits.harm: input should be a finite number, got nan",
        "target_score: input should be a finite number, got inf",
    ]
