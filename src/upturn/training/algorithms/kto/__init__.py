"""Kahneman-Tversky optimisation on single trajectories that people rated.

Not here: how ratings are collected and settled. Start with ``run_kto``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.kto.settings import KtoSettings

if TYPE_CHECKING:
    from upturn.training.algorithms.kto.run import RatedBatches, digest, mismatched, rated_steps, run_kto
else:
    __getattr__ = lazy_names(
        __name__,
        {"RatedBatches": "run", "digest": "run", "mismatched": "run", "rated_steps": "run", "run_kto": "run"},
    )

__all__ = ["KtoSettings", "RatedBatches", "digest", "mismatched", "rated_steps", "run_kto"]
