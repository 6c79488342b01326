"""On-policy distillation: the model learns from a teacher's scores of its own tokens, without rewards.

Start with ``run``. With rewards as well: ``teacher`` of ``algorithms.grpo``. The teacher's advantages are in
``algorithms.teacher_signal``."""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.distillation.settings import DistillationSettings

if TYPE_CHECKING:
    from upturn.training.algorithms.distillation.run import run_distillation
else:
    __getattr__ = lazy_names(__name__, {"run_distillation": "run"})

__all__ = ["DistillationSettings", "run_distillation"]
