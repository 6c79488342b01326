"""Export of a tenant's records, in our own form and in those of trainers, anonymised by default.

``exporter`` writes our own form (``form``), which ``pool.ingestion.exported`` reads back; ``formats`` are those of
trainers, and ``card`` describes a snapshot. Not here: what counts as personal data (``upturn.pool.privacy``). Start
with ``exporter``.
"""

from upturn.pool.exports.card import SnapshotCard, snapshot_card, write_card
from upturn.pool.exports.choice import Choice
from upturn.pool.exports.exporter import PoolExport
from upturn.pool.exports.form import (
    END_KIND,
    EXPORTED,
    FORM_VERSION,
    HEADER_KIND,
    ExportEnd,
    ExportHeader,
    LineDigest,
)
from upturn.pool.exports.formats import FORMATS, WRITERS, TrainingFormat
from upturn.pool.exports.source import ChatSource
from upturn.pool.exports.training import TrainingExport
from upturn.pool.privacy import anonymise

__all__ = [
    "END_KIND",
    "EXPORTED",
    "FORMATS",
    "FORM_VERSION",
    "HEADER_KIND",
    "WRITERS",
    "ChatSource",
    "Choice",
    "ExportEnd",
    "ExportHeader",
    "LineDigest",
    "PoolExport",
    "SnapshotCard",
    "TrainingExport",
    "TrainingFormat",
    "anonymise",
    "snapshot_card",
    "write_card",
]
