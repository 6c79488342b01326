"""Direct preference optimisation on pairs that are there before training.

Not here: how pairs are found (``data``). Fresh pairs in iterations: ``online_dpo``. Start with ``run_dpo``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.dpo.settings import DpoSettings

if TYPE_CHECKING:
    from upturn.training.algorithms.dpo.run import PairBatches, digest, pair_steps, run_dpo
else:
    __getattr__ = lazy_names(
        __name__, {"PairBatches": "run", "digest": "run", "pair_steps": "run", "run_dpo": "run"}
    )

__all__ = ["DpoSettings", "PairBatches", "digest", "pair_steps", "run_dpo"]
