"""What routers learn from: the outcomes of decisions in the order of arrival, and snapshots of what was learned.

Start with ``outcome``.
"""

from upturn.pool.serving.outcome import (
    Metric,
    StoredOutcome,
    Value,
    evaluated_until,
    last_sequence,
    outcomes_after,
    values_of,
)
from upturn.pool.serving.snapshot import RouterSnapshot, load_router, save_router

__all__ = [
    "Metric",
    "RouterSnapshot",
    "StoredOutcome",
    "Value",
    "evaluated_until",
    "last_sequence",
    "load_router",
    "outcomes_after",
    "save_router",
    "values_of",
]
