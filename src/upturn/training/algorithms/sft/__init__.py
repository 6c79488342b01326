"""Supervised training on written tokens: settings and run.

Not here: which trajectories are trained on. Start with ``run_sft``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.sft.settings import SftSettings

if TYPE_CHECKING:
    from upturn.training.algorithms.sft.run import held_out_loss, rows_digest, run_sft, supervised_steps
else:
    __getattr__ = lazy_names(
        __name__, {"held_out_loss": "run", "rows_digest": "run", "run_sft": "run", "supervised_steps": "run"}
    )

__all__ = ["SftSettings", "held_out_loss", "rows_digest", "run_sft", "supervised_steps"]
