"""Kahneman-Tversky optimisation on single trajectories that people rated.

Not here: how ratings are collected and resolved. Start with ``run_kto``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.kto.settings import KtoSettings

if TYPE_CHECKING:
    from upturn.training.algorithms.kto.run import RatedBatches, mismatch_rows, rated_steps, ratings_digest, run_kto
else:
    __getattr__ = lazy_names(
        __name__,
        dict.fromkeys(("RatedBatches", "mismatch_rows", "rated_steps", "ratings_digest", "run_kto"), "run"),
    )

__all__ = ["KtoSettings", "RatedBatches", "mismatch_rows", "rated_steps", "ratings_digest", "run_kto"]
