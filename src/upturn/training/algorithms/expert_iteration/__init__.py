"""Iterations of sampling, selecting successes, and supervised training on them.

Rejection sampling, expert iteration, STaR and self-repair are settings of one run. Not here: how successes are
selected (``data``). Start with ``run_imitation``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.expert_iteration.settings import (
    ImitationSettings,
    IteratedSettings,
    RejectionSettings,
    SelfRepairSettings,
    StarSettings,
)

if TYPE_CHECKING:
    from upturn.training.algorithms.expert_iteration.run import run_imitation
else:
    __getattr__ = lazy_names(__name__, {"run_imitation": "run"})

__all__ = [
    "ImitationSettings",
    "IteratedSettings",
    "RejectionSettings",
    "SelfRepairSettings",
    "StarSettings",
    "run_imitation",
]
