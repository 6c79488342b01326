"""Whole pools from one place to another.

Not here: the export of records for other programs (``upturn.pool.exports``). Start with ``moving``.
"""

from upturn.pool.transfer.copying import copy_pool
from upturn.pool.transfer.moving import MovedTable, move_pool, rows_of

__all__ = ["MovedTable", "copy_pool", "move_pool", "rows_of"]
