"""Import of recordings from elsewhere; ``formats`` has one reader for each format.

Not here: feedback files (``upturn.pool.feedback``), and exports of a pool (``upturn.pool.exports``). Start with
``importer``.
"""

from upturn.pool.ingestion.borders import keep_borders
from upturn.pool.ingestion.conversion import RECORDED
from upturn.pool.ingestion.formats import (
    COST_SUFFIXES,
    FAMILY_NAMES,
    LARGEST_COST,
    MISSING,
    detected_models,
    number,
    outcome,
)
from upturn.pool.ingestion.importer import IngestOptions, check_source, earlier_report, ingest
from upturn.pool.ingestion.quarantine import QuarantinedLine, drop_quarantined, quarantined_lines
from upturn.pool.ingestion.received import Received, receive_traces
from upturn.pool.ingestion.recording import printable, unreadable
from upturn.pool.ingestion.transcript import LostWordsError, Transcript, is_imported, transcript

__all__ = [
    "COST_SUFFIXES",
    "FAMILY_NAMES",
    "LARGEST_COST",
    "MISSING",
    "RECORDED",
    "IngestOptions",
    "LostWordsError",
    "QuarantinedLine",
    "Received",
    "Transcript",
    "check_source",
    "detected_models",
    "drop_quarantined",
    "earlier_report",
    "ingest",
    "is_imported",
    "keep_borders",
    "number",
    "outcome",
    "printable",
    "quarantined_lines",
    "receive_traces",
    "transcript",
    "unreadable",
]
