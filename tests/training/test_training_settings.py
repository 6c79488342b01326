"""Settings refuse what cannot work, all problems at once, and load no torch."""

import subprocess
import sys

import pytest

from upturn.config import OptimiserSettings
from upturn.errors import ConfigError
from upturn.training.advantages import AdvantageSettings
from upturn.training.algorithms.grpo import GrpoSettings


def test_all_problems_are_listed_together() -> None:
    with pytest.raises(ConfigError) as caught:
        OptimiserSettings(learning_rate=0, max_grad_norm=-1, beta2=1.0)
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "learning_rate",
        "beta2",
        "max_grad_norm",
    ]


def test_defaults_are_valid_and_match_the_papers() -> None:
    settings = GrpoSettings()
    assert (*settings.objective.clips, settings.optimiser.learning_rate) == (0.2, 0.28, 1e-4)
    assert settings.advantage == AdvantageSettings(gamma=1.0, baseline="group_mean", scale="none")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_numbers_out_of_range_show_their_value(value: float) -> None:
    with pytest.raises(ConfigError, match=f"learning_rate: input should be .*, got {value!r}"):
        OptimiserSettings(learning_rate=value)


def test_the_package_imports_without_torch() -> None:
    code = "import sys, upturn.training; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
