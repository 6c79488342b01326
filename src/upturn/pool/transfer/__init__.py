"""Whole pools from one place to another.

Not here: the export of records for other programs (``upturn.pool.exports``). Start with ``copying``.
"""

from upturn.pool.transfer.copying import copy_pool

__all__ = ["copy_pool"]
