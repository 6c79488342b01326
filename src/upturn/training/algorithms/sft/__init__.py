"""Supervised training on written tokens.

Its settings and its run, and what all training in epochs is built from: ``epoch_order``, ``SupervisedSteps``.
Not here: which trajectories are trained on. Start with ``run_sft``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.sft.settings import SftSettings

if TYPE_CHECKING:
    from upturn.training.algorithms.sft.run import SupervisedSteps, epoch_order, held_out_loss, rows_digest, run_sft
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "SupervisedSteps": "run",
            "epoch_order": "run",
            "held_out_loss": "run",
            "rows_digest": "run",
            "run_sft": "run",
        },
    )

__all__ = ["SftSettings", "SupervisedSteps", "epoch_order", "held_out_loss", "rows_digest", "run_sft"]
