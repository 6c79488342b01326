"""The ways of learning: one file or folder each.

Each turns rows or fresh rollouts into the weight streams of an optimiser step and offers one ``run_…``
function. Not here: estimators of credit (``advantages``), losses (``losses``) and the trainer
(``optimisation``). Start with ``sft``, the shortest, then ``grpo``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.offline_settings import CORRECTION, OfflineSettings
from upturn.training.algorithms.presets import preset
from upturn.training.algorithms.small_data import SMALL_DATA

if TYPE_CHECKING:
    from upturn.training.algorithms.dpo import PairBatches, run_dpo
    from upturn.training.algorithms.expert_iteration import run_imitation
    from upturn.training.algorithms.grpo import run_grpo
    from upturn.training.algorithms.kto import RatedBatches, run_kto
    from upturn.training.algorithms.offline_policy_gradient import run_offline
    from upturn.training.algorithms.policy_gradient import PolicyGradient
    from upturn.training.algorithms.sft import SupervisedSteps, run_sft
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "PairBatches": "dpo",
            "run_dpo": "dpo",
            "run_imitation": "expert_iteration",
            "run_grpo": "grpo",
            "RatedBatches": "kto",
            "run_kto": "kto",
            "run_offline": "offline_policy_gradient",
            "PolicyGradient": "policy_gradient",
            "SupervisedSteps": "sft",
            "run_sft": "sft",
        },
    )

__all__ = [
    "CORRECTION",
    "SMALL_DATA",
    "OfflineSettings",
    "PairBatches",
    "PolicyGradient",
    "RatedBatches",
    "SupervisedSteps",
    "preset",
    "run_dpo",
    "run_grpo",
    "run_imitation",
    "run_kto",
    "run_offline",
    "run_sft",
]
