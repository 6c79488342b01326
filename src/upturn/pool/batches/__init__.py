"""Batches: a number of data points by criteria, drawn by a seed, and frozen as snapshots that can be drawn again.

``criteria`` has what can be asked for, ``allocation`` how many points each stratum gives, ``choice`` which of its
candidates, ``draw`` the queries, ``batch`` all of it. Selections of everything that meets conditions are in
``upturn.pool.selection``. Start with ``batch``.
"""

from upturn.pool.batches.batch import Batch, BatchPoint, freeze_batch, get_batch, redraw
from upturn.pool.batches.criteria import Axis, BatchCriteria, Priorities

__all__ = [
    "Axis",
    "Batch",
    "BatchCriteria",
    "BatchPoint",
    "Priorities",
    "freeze_batch",
    "get_batch",
    "redraw",
]
