"""What the pool holds in numbers: by agent version, family and outcome, over time, and what changed.

Not here: quality gates and coverage (``upturn.pool.quality``). Start with ``statistics``.
"""

from upturn.pool.statistics.drift import Change, Drift, drift
from upturn.pool.statistics.history import DAY, Period, history
from upturn.pool.statistics.statistics import AgentStatistics, FamilyStatistics, call_cost, counts, statistics
from upturn.pool.statistics.usage import AgentUsage, usage_by_agent

__all__ = [
    "DAY",
    "AgentStatistics",
    "AgentUsage",
    "Change",
    "Drift",
    "FamilyStatistics",
    "Period",
    "call_cost",
    "counts",
    "drift",
    "history",
    "statistics",
    "usage_by_agent",
]
