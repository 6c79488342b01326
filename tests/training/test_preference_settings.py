"""Settings of learning from preferences refuse what cannot work, and what would do nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from upturn.errors import ConfigError
from upturn.training.algorithms.dpo import DpoSettings
from upturn.training.algorithms.kto import KtoSettings
from upturn.training.algorithms.online_dpo import OnlineDpoSettings
from upturn.training.algorithms.ppo import CriticSettings
from upturn.training.pair_settings import PairObjectiveSettings, PairSettings


@pytest.mark.parametrize(
    ("create", "changes", "message"),
    [
        (PairObjectiveSettings, {"beta": 0.0}, r"beta: input should be greater than 0, got 0\.0"),
        (
            PairObjectiveSettings,
            {"label_smoothing": 0.5},
            r"label_smoothing: input should be less than 0.5, got 0\.5",
        ),
        (PairObjectiveSettings, {"sft_coefficient": 0.0}, "sft_coefficient: input should be greater than 0"),
        (
            PairObjectiveSettings,
            {"kind": "ipo", "label_smoothing": 0.1},
            r"label_smoothing=0\.1 would do nothing with kind='ipo'",
        ),
        (PairSettings, {"min_margin": -1.0}, "min_margin: input should be greater than or equal to 0"),
        (PairSettings, {"gamma": 1.5}, r"gamma: input should be less than or equal to 1"),
        (PairSettings, {"monte_carlo_share": 2.0}, r"monte_carlo_share: input should be less than or equal to 1"),
        (PairSettings, {"valued_by": "state_values"}, "valued_by='state_values' would do nothing with by='traj"),
        (PairSettings, {"monte_carlo_share": 0.5}, r"monte_carlo_share=0\.5 would do nothing with by='trajectory'"),
        (
            PairSettings,
            {"by": "turn", "monte_carlo_share": 0.0, "valued_by": "state_values"},
            "valued_by='state_values' would do nothing with monte_carlo_share=0",
        ),
        (DpoSettings, {"epochs": 0}, "epochs: input should be greater than or equal to 1"),
        (DpoSettings, {"batch_pairs": 0}, "batch_pairs: input should be greater than or equal to 1"),
        (OnlineDpoSettings, {"iterations": 0}, "iterations: input should be greater than or equal to 1"),
        (OnlineDpoSettings, {"epochs": 0}, "epochs: input should be greater than or equal to 1"),
        (
            OnlineDpoSettings,
            {"critic": CriticSettings()},
            r"critic would do nothing with pairs\.monte_carlo_share=1",
        ),
        (
            OnlineDpoSettings,
            {
                "iterations": 3,
                "pairs": PairSettings(by="turn", monte_carlo_share=0.5),
                "critic": CriticSettings(alone_iterations=3),
            },
            r"critic\.alone_iterations=3 leaves no iteration of 3 that uses the critic",
        ),
        (KtoSettings, {"beta": -1.0}, "beta: input should be greater than 0"),
        (KtoSettings, {"desirable_weight": 0.0}, "desirable_weight: input should be greater than 0"),
        (KtoSettings, {"undesirable_weight": 0.0}, "undesirable_weight: input should be greater than 0"),
        (KtoSettings, {"batch_trajectories": 0}, "batch_trajectories: input should be greater than or equal to 1"),
    ],
)
def test_invalid_preference_settings_are_refused_by_name(
    create: Callable[..., Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        create(**changes)


def test_a_discount_is_accepted_with_a_trained_critic() -> None:
    pairs = PairSettings(by="turn", monte_carlo_share=0.0, gamma=0.9)
    assert OnlineDpoSettings(pairs=pairs, critic=CriticSettings()).pairs.gamma == 0.9


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        KtoSettings(epochs=0, beta=0.0, patience=3, keep="best")
    assert len(caught.value.problems) == 4


def test_preference_settings_load_no_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys, upturn.training.pair_settings, upturn.training.data.pair_mining;"
        "import upturn.training.data.pair_row;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
