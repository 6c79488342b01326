"""Training of weights on rollouts and stored rows.

The contracts of all algorithms are at the top: rows, streams, losses, advantages, evaluations, settings. The
algorithms are rooms of ``algorithms``; ``data`` builds groups and pairs, ``optimisation`` takes steps, ``runs``
resumes and writes curves, ``distributed`` shards a model over processes. Not here: the pool and the agents, which
``upturn.loop`` connects to training. Importing this package loads no torch. Start with ``stream``, then
``algorithms.sft``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.advantage import (
    Advantage,
    GroupAdvantages,
    RewardComponent,
    ScoredGroup,
    ScoredTrajectory,
    StateValue,
)
from upturn.training.evaluation_result import Evaluate, EvaluationResult
from upturn.training.outcome import TrainingOutcome
from upturn.training.pair_settings import PairObjectiveSettings, PairSettings, StoredPairSettings
from upturn.training.policy_settings import (
    DynamicSamplingSettings,
    KlSettings,
    MismatchSettings,
    ObjectiveSettings,
    PartialSettings,
    PolicyGradientSettings,
)
from upturn.training.row import (
    FloatArray,
    IntArray,
    TrainingRow,
    last_turn,
    policy_rows,
    supervised_rows,
    turn_rows,
    written_by,
    written_count,
)
from upturn.training.run_settings import EpochSettings, IterationSettings, OnlineSettings
from upturn.training.scorer import Scorer
from upturn.training.selection_settings import HintKind, HintSettings, SelectionSettings
from upturn.training.stream import Minibatch, State, Stream
from upturn.training.teacher_settings import TeacherSettings

if TYPE_CHECKING:
    from upturn.training.loss import TokenBatch, TokenStatistics
else:
    __getattr__ = lazy_names(__name__, {"TokenBatch": "loss", "TokenStatistics": "loss"})

__all__ = [
    "Advantage",
    "DynamicSamplingSettings",
    "EpochSettings",
    "Evaluate",
    "EvaluationResult",
    "FloatArray",
    "GroupAdvantages",
    "HintKind",
    "HintSettings",
    "IntArray",
    "IterationSettings",
    "KlSettings",
    "Minibatch",
    "MismatchSettings",
    "ObjectiveSettings",
    "OnlineSettings",
    "PairObjectiveSettings",
    "PairSettings",
    "PartialSettings",
    "PolicyGradientSettings",
    "RewardComponent",
    "ScoredGroup",
    "ScoredTrajectory",
    "Scorer",
    "SelectionSettings",
    "State",
    "StateValue",
    "StoredPairSettings",
    "Stream",
    "TeacherSettings",
    "TokenBatch",
    "TokenStatistics",
    "TrainingOutcome",
    "TrainingRow",
    "last_turn",
    "policy_rows",
    "supervised_rows",
    "turn_rows",
    "written_by",
    "written_count",
]
