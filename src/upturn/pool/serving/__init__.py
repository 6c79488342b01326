"""What routers learn from: the outcomes of decisions in the order of arrival, and snapshots of what was learned.

Start with ``outcome``; ``consumption`` has the tokens and seconds of calls and tasks.
"""

from upturn.pool.serving.consumption import Consumed, consumption_after
from upturn.pool.serving.metric_count import MetricCount, metric_counts
from upturn.pool.serving.outcome import (
    StoredOutcome,
    Value,
    evaluated_until,
    last_record,
    last_sequence,
    outcomes_after,
    records_after,
    values_of,
)
from upturn.pool.serving.snapshot import RouterSnapshot, load_router, save_router

__all__ = [
    "Consumed",
    "MetricCount",
    "RouterSnapshot",
    "StoredOutcome",
    "Value",
    "consumption_after",
    "evaluated_until",
    "last_record",
    "last_sequence",
    "load_router",
    "metric_counts",
    "outcomes_after",
    "records_after",
    "save_router",
    "values_of",
]
