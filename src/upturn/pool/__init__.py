"""The pool: the evidence of everything that was asked, decided, done and judged.

Import the store from here; statistics, readiness, snapshots and import have modules of their own
(``upturn.pool.statistics``, ``.readiness``, ``.snapshot``, ``.importer``).
"""

from upturn.pool.batch import PoolBatch, RolloutKey
from upturn.pool.reader import Experience, Selected
from upturn.pool.selection import ALL_TENANTS, EVERYTHING, Scope, Selection
from upturn.pool.sink import PoolSink
from upturn.pool.store import Pool

__all__ = [
    "ALL_TENANTS",
    "EVERYTHING",
    "Experience",
    "Pool",
    "PoolBatch",
    "PoolSink",
    "RolloutKey",
    "Scope",
    "Selected",
    "Selection",
]
