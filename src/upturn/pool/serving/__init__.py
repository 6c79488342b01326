"""What routers learn from: the outcomes of decisions in the order of arrival, and snapshots of what was learned.

Start with ``outcome``.
"""

from upturn.pool.serving.metric_count import MetricCount, metric_counts
from upturn.pool.serving.outcome import (
    StoredOutcome,
    Value,
    evaluated_until,
    last_sequence,
    outcomes_after,
    values_of,
)
from upturn.pool.serving.snapshot import RouterSnapshot, load_router, save_router

__all__ = [
    "MetricCount",
    "RouterSnapshot",
    "StoredOutcome",
    "Value",
    "evaluated_until",
    "last_sequence",
    "load_router",
    "metric_counts",
    "outcomes_after",
    "save_router",
    "values_of",
]
