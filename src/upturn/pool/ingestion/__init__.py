"""Import of recordings from elsewhere; ``formats`` has one reader for each format.

Not here: feedback files (``upturn.pool.feedback``). Start with ``importer``.
"""

from upturn.pool.ingestion.importer import IngestOptions, check_source, ingest
from upturn.pool.ingestion.quarantine import QuarantinedLine, drop_quarantined, quarantined_lines

__all__ = ["IngestOptions", "QuarantinedLine", "check_source", "drop_quarantined", "ingest", "quarantined_lines"]
