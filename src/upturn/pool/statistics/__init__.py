"""What the pool holds in numbers: by agent version, family and outcome, over time, and what changed.

Not here: quality gates and coverage (``upturn.pool.quality``). Start with ``statistics``.
"""

from upturn.pool.statistics.drift import Change, Drift, drift
from upturn.pool.statistics.history import DAY, Period, history
from upturn.pool.statistics.rollouts import rollout_evaluations
from upturn.pool.statistics.statistics import AgentStatistics, FamilyStatistics, call_cost, counts, statistics
from upturn.pool.statistics.tagged import TagStatistics, tag_statistics
from upturn.pool.statistics.usage import AgentUsage, usage_by_agent

__all__ = [
    "DAY",
    "AgentStatistics",
    "AgentUsage",
    "Change",
    "Drift",
    "FamilyStatistics",
    "Period",
    "TagStatistics",
    "call_cost",
    "counts",
    "drift",
    "history",
    "rollout_evaluations",
    "statistics",
    "tag_statistics",
    "usage_by_agent",
]
