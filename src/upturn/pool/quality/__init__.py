"""How good the stored evidence is: quality gates of a data point, coverage, and readiness for training.

Not here: statistics of agents and families (``upturn.pool.statistics``). Start with ``inspection``, which has the
gates.
"""

from upturn.pool.quality.coverage import IMPORTED, Coverage, Share, coverage
from upturn.pool.quality.inspection import inspect, missing_reward
from upturn.pool.quality.readiness import check, readiness, survey

__all__ = ["IMPORTED", "Coverage", "Share", "check", "coverage", "inspect", "missing_reward", "readiness", "survey"]
