"""A tenant's evidence over HTTP: what programs report, statistics, quality and batches.

The answers are those of the command line (``pool.answers``). Start with ``routes``.
"""

from upturn.gateway.evidence.routes import Evidence, pool_routes

__all__ = ["Evidence", "pool_routes"]
