"""Training: rollouts and stored rows become better weights.

Importing this package loads no torch. What needs torch is imported by name: the runs (``sft.run_sft``,
``grpo.run_grpo``, ``ppo.run_ppo``, ``dpo.run_dpo``, ``dpo_rounds.run_dpo_rounds``, ``kto.run_kto``,
``imitation.run_imitation``, ``world_model.run_world_model``, ``offline.run_offline``, ``mixture.run_mixture``),
several processes (``sharding``), ``version`` and ``weights``.
"""

from upturn.training.advantage import Advantage, GroupAdvantages, ScoredGroup, ScoredTrajectory, StateValue
from upturn.training.advantages import AdvantageSettings, GroupRelative, advantage_of
from upturn.training.curriculum_settings import CurriculumSettings, GateSettings, LevelSettings
from upturn.training.curve import CurvePoint, read_curve
from upturn.training.imitation_settings import IMITATIONS, ImitationSettings, imitation
from upturn.training.mixture_settings import MixtureSettings
from upturn.training.offline_settings import OfflineSettings
from upturn.training.outcome import TrainingOutcome
from upturn.training.policy_settings import (
    DynamicSamplingSettings,
    KlSettings,
    MismatchSettings,
    ObjectiveSettings,
)
from upturn.training.ppo_settings import CreditSettings, CriticSettings, PpoSettings
from upturn.training.preference_settings import DpoRoundsSettings, DpoSettings, KtoSettings, PairSettings
from upturn.training.presets import PRESETS, preset
from upturn.training.row import TrainingRow, policy_rows, supervised_rows
from upturn.training.settings import GrpoSettings, OptimiserSettings, SftSettings
from upturn.training.stored import usable_for
from upturn.training.world_model_settings import WorldModelSettings

__all__ = [
    "IMITATIONS",
    "PRESETS",
    "Advantage",
    "AdvantageSettings",
    "CreditSettings",
    "CriticSettings",
    "CurriculumSettings",
    "CurvePoint",
    "DpoRoundsSettings",
    "DpoSettings",
    "DynamicSamplingSettings",
    "GateSettings",
    "GroupAdvantages",
    "GroupRelative",
    "GrpoSettings",
    "ImitationSettings",
    "KlSettings",
    "KtoSettings",
    "LevelSettings",
    "MismatchSettings",
    "MixtureSettings",
    "ObjectiveSettings",
    "OfflineSettings",
    "OptimiserSettings",
    "PairSettings",
    "PpoSettings",
    "ScoredGroup",
    "ScoredTrajectory",
    "SftSettings",
    "StateValue",
    "TrainingOutcome",
    "TrainingRow",
    "WorldModelSettings",
    "advantage_of",
    "imitation",
    "policy_rows",
    "preset",
    "read_curve",
    "supervised_rows",
    "usable_for",
]
