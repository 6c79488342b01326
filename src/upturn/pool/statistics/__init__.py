"""What the pool holds in numbers: by agent version, family and outcome.

Not here: quality gates and coverage (``upturn.pool.quality``). Start with ``statistics``.
"""

from upturn.pool.statistics.history import Period, history
from upturn.pool.statistics.statistics import AgentStatistics, FamilyStatistics, counts, statistics

__all__ = ["AgentStatistics", "FamilyStatistics", "Period", "counts", "history", "statistics"]
