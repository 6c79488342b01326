"""Import of recordings from elsewhere; ``formats`` has one reader for each format.

Not here: feedback files (``upturn.pool.feedback``). Start with ``importer``.
"""

from upturn.pool.ingestion.importer import IngestOptions, check_source, ingest

__all__ = ["IngestOptions", "check_source", "ingest"]
