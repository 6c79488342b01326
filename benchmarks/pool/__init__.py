"""How fast the pool stores, draws and counts, and how many bytes it takes, on SQLite and PostgreSQL.

``plan`` has the sizes, ``workload`` the data points, ``backends`` the databases; ``ingest``, ``storage`` and
``scale`` and ``losses`` measure. Start with ``measure``.
"""
