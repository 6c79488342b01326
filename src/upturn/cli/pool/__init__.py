"""``upturn pool``: statistics, readiness, validation and export of a pool.

Not here: the pool itself (``upturn.pool``). Start with ``commands``, which has the group.
"""
