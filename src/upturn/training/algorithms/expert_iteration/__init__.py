"""Iterations of sampling, selecting what went well, and supervised training on it.

Rejection sampling, expert iteration, STaR and self-repair are settings of one run. Not here: how successes are
selected (``data``). Start with ``run_imitation``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.expert_iteration.settings import (
    IMITATIONS,
    ImitationSettings,
    IteratedSettings,
    RejectionSettings,
    SelfRepairSettings,
    StarSettings,
    imitation,
)

if TYPE_CHECKING:
    from upturn.training.algorithms.expert_iteration.run import ImitationRounds, run_imitation
else:
    __getattr__ = lazy_names(__name__, {"ImitationRounds": "run", "run_imitation": "run"})

__all__ = [
    "IMITATIONS",
    "ImitationRounds",
    "ImitationSettings",
    "IteratedSettings",
    "RejectionSettings",
    "SelfRepairSettings",
    "StarSettings",
    "imitation",
    "run_imitation",
]
