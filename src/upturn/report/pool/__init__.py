"""The page of a pool: what evidence it holds, how well its agents do, and what is wrong with it.

Not here: reading the pool (``upturn.pool``). Start with ``content``, then ``page``.
"""

from upturn.report.pool.content import (
    ChangeRow,
    GateRow,
    Group,
    Outcome,
    PassRow,
    Period,
    PoolReport,
    UsageRow,
    Volume,
)
from upturn.report.pool.page import render_pool, write_pool_report

__all__ = [
    "ChangeRow",
    "GateRow",
    "Group",
    "Outcome",
    "PassRow",
    "Period",
    "PoolReport",
    "UsageRow",
    "Volume",
    "render_pool",
    "write_pool_report",
]
