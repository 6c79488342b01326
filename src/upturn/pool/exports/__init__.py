"""Export of a tenant's records, in our own form and in those of trainers and viewers, anonymised by default.

``exporter`` writes our own form (``form``), which ``reading`` imports again; ``formats`` are those of
trainers, ``logs`` those of viewers, and ``card`` describes a snapshot. Not here: what counts as personal data
(``upturn.pool.privacy``). Start with ``exporter``.
"""

from upturn.pool.exports.card import SnapshotCard, snapshot_card, write_card
from upturn.pool.exports.choice import Choice
from upturn.pool.exports.export_file import ExportFile
from upturn.pool.exports.exporter import PoolExport
from upturn.pool.exports.formats import FORMATS, WRITERS, TrainingFormat
from upturn.pool.exports.logs import LOGS, LogFormat
from upturn.pool.exports.reading import import_export
from upturn.pool.exports.source import ChatSource
from upturn.pool.exports.training import TrainingExport
from upturn.pool.privacy import anonymise

__all__ = [
    "FORMATS",
    "LOGS",
    "WRITERS",
    "ChatSource",
    "Choice",
    "ExportFile",
    "LogFormat",
    "PoolExport",
    "SnapshotCard",
    "TrainingExport",
    "TrainingFormat",
    "anonymise",
    "import_export",
    "snapshot_card",
    "write_card",
]
