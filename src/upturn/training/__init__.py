"""Training: rollouts and stored rows become better weights.

Importing this package loads no torch. What needs torch is imported by name: the runs (``sft.run_sft``,
``grpo.run_grpo``, ``ppo.run_ppo``, ``dpo.run_dpo``, ``dpo_rounds.run_dpo_rounds``, ``kto.run_kto``,
``imitation.run_imitation``, ``world_model.run_world_model``, ``offline.run_offline``, ``mixture.run_mixture``),
several processes (``sharding``), ``version`` and ``weights``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.adapter_settings import AdapterSettings
from upturn.training.advantage import Advantage, GroupAdvantages, ScoredGroup, ScoredTrajectory, StateValue
from upturn.training.curriculum_settings import CurriculumSettings, GateSettings, LevelSettings
from upturn.training.evaluation_result import Assessment, Evaluate
from upturn.training.imitation_settings import (
    IMITATIONS,
    ImitationSettings,
    SecondKind,
    SelectionSettings,
    imitation,
)
from upturn.training.outcome import TrainingOutcome
from upturn.training.policy_settings import DynamicSamplingSettings, KlSettings, MismatchSettings, ObjectiveSettings
from upturn.training.ppo_settings import CreditSettings, CriticSettings, PpoSettings
from upturn.training.preference_settings import (
    DpoRoundsSettings,
    DpoSettings,
    KtoSettings,
    PairObjectiveSettings,
    PairSettings,
)
from upturn.training.row import (
    FloatArray,
    IntArray,
    TrainingRow,
    policy_rows,
    supervised_rows,
    turn_rows,
    written_count,
)
from upturn.training.scorer import Scorer
from upturn.training.settings import GrpoSettings, OptimiserSettings, SftSettings, is_ratio_one
from upturn.training.stream import Minibatch, State, Stream

if TYPE_CHECKING:
    from upturn.training.loss import TokenBatch, TokenStatistics
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "TokenBatch": "loss",
            "TokenStatistics": "loss",
        },
    )

__all__ = [
    "IMITATIONS",
    "AdapterSettings",
    "Advantage",
    "Assessment",
    "CreditSettings",
    "CriticSettings",
    "CurriculumSettings",
    "DpoRoundsSettings",
    "DpoSettings",
    "DynamicSamplingSettings",
    "Evaluate",
    "FloatArray",
    "GateSettings",
    "GroupAdvantages",
    "GrpoSettings",
    "ImitationSettings",
    "IntArray",
    "KlSettings",
    "KtoSettings",
    "LevelSettings",
    "Minibatch",
    "MismatchSettings",
    "ObjectiveSettings",
    "OptimiserSettings",
    "PairObjectiveSettings",
    "PairSettings",
    "PpoSettings",
    "ScoredGroup",
    "ScoredTrajectory",
    "Scorer",
    "SecondKind",
    "SelectionSettings",
    "SftSettings",
    "State",
    "StateValue",
    "Stream",
    "TokenBatch",
    "TokenStatistics",
    "TrainingOutcome",
    "TrainingRow",
    "imitation",
    "is_ratio_one",
    "policy_rows",
    "supervised_rows",
    "turn_rows",
    "written_count",
]
