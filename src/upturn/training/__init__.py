"""Training: rollouts and stored rows become better weights.

Importing this package loads no torch. What needs torch is imported by name: ``upturn.training.sft.run_sft``,
``upturn.training.grpo.run_grpo``, ``upturn.training.version`` and ``upturn.training.weights``.
"""

from upturn.training.advantage import Advantage, GroupAdvantages, ScoredGroup, ScoredTrajectory, StateValue
from upturn.training.advantages import AdvantageSettings, GroupRelative, advantage_of
from upturn.training.curve import CurvePoint, read_curve
from upturn.training.outcome import TrainingOutcome
from upturn.training.policy_settings import (
    DynamicSamplingSettings,
    KlSettings,
    MismatchSettings,
    ObjectiveSettings,
)
from upturn.training.presets import PRESETS, preset
from upturn.training.row import TrainingRow, policy_rows, supervised_rows
from upturn.training.settings import GrpoSettings, OptimiserSettings, SftSettings

__all__ = [
    "PRESETS",
    "Advantage",
    "AdvantageSettings",
    "CurvePoint",
    "DynamicSamplingSettings",
    "GroupAdvantages",
    "GroupRelative",
    "GrpoSettings",
    "KlSettings",
    "MismatchSettings",
    "ObjectiveSettings",
    "OptimiserSettings",
    "ScoredGroup",
    "ScoredTrajectory",
    "SftSettings",
    "StateValue",
    "TrainingOutcome",
    "TrainingRow",
    "advantage_of",
    "policy_rows",
    "preset",
    "read_curve",
    "supervised_rows",
]
