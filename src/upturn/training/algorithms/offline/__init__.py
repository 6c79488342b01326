"""Policy optimisation on stored trajectories with their sampler's log-probs.

Not here: which stored trajectories are usable (``data``). Start with ``run_offline``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.offline.settings import CORRECTION, OfflineSettings

if TYPE_CHECKING:
    from upturn.training.algorithms.offline.run import StoredCollect, run_offline
else:
    __getattr__ = lazy_names(__name__, {"StoredCollect": "run", "run_offline": "run"})

__all__ = ["CORRECTION", "OfflineSettings", "StoredCollect", "run_offline"]
