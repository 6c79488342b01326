"""Whole pools from one place to another.

Not here: the export of records for other programs (``upturn.pool.exports``). Start with ``moving``.
"""

from upturn.pool.transfer.copying import copy_pool
from upturn.pool.transfer.moving import MovedTable, move_pool, rows_of
from upturn.pool.transfer.restoring import Drill, drill, restore_pool

__all__ = ["Drill", "MovedTable", "copy_pool", "drill", "move_pool", "restore_pool", "rows_of"]
