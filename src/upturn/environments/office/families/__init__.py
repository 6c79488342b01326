"""The office's task families: one module for each group of related tasks.

Each module lists its ``FAMILIES``: templates, the world a task needs, and its oracle. Not here: the pieces that
families draw from (``generation``). Start with ``mail_reading``.
"""
