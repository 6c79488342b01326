"""Import of recordings from elsewhere; ``formats`` has one reader for each format.

``exported`` reads back what ``pool.exports`` wrote. Not here: feedback files (``upturn.pool.feedback``). Start with
``importer``.
"""

from upturn.pool.ingestion.export_file import ExportFile
from upturn.pool.ingestion.exported import import_export
from upturn.pool.ingestion.importer import IngestOptions, check_source, ingest
from upturn.pool.ingestion.quarantine import QuarantinedLine, drop_quarantined, quarantined_lines
from upturn.pool.ingestion.received import Received, receive_traces
from upturn.pool.ingestion.transcript import LostWordsError, Transcript, is_imported, transcript

__all__ = [
    "ExportFile",
    "IngestOptions",
    "LostWordsError",
    "QuarantinedLine",
    "Received",
    "Transcript",
    "check_source",
    "drop_quarantined",
    "import_export",
    "ingest",
    "is_imported",
    "quarantined_lines",
    "receive_traces",
    "transcript",
]
