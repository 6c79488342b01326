"""What the pool holds in numbers: by agent version, family and outcome.

Not here: quality gates and coverage (``upturn.pool.quality``). Start with ``statistics``.
"""

from upturn.pool.statistics.history import DAY, Period, history
from upturn.pool.statistics.rollouts import rollout_evaluations
from upturn.pool.statistics.statistics import AgentStatistics, FamilyStatistics, call_cost, counts, statistics
from upturn.pool.statistics.tagged import TagStatistics, tag_statistics

__all__ = [
    "DAY",
    "AgentStatistics",
    "FamilyStatistics",
    "Period",
    "TagStatistics",
    "call_cost",
    "counts",
    "history",
    "rollout_evaluations",
    "statistics",
    "tag_statistics",
]
