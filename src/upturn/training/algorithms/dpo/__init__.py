"""Direct preference optimisation on a fixed set of pairs.

Not here: how pairs are built (``data``). Fresh pairs in iterations: ``online_dpo``. Start with ``run_dpo``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.dpo.settings import DpoSettings

if TYPE_CHECKING:
    from upturn.training.algorithms.dpo.run import PairBatches, pair_steps, pairs_digest, run_dpo
else:
    __getattr__ = lazy_names(
        __name__, {"PairBatches": "run", "pair_steps": "run", "pairs_digest": "run", "run_dpo": "run"}
    )

__all__ = ["DpoSettings", "PairBatches", "pair_steps", "pairs_digest", "run_dpo"]
