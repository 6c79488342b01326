"""Export of a tenant's records, anonymised by default.

``exporter`` writes our own form (``form``), which ``pool.ingestion.exported`` reads back. Not here: what counts as
personal data (``upturn.pool.privacy``). Start with ``exporter``.
"""

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
from upturn.pool.privacy import anonymise

__all__ = [
    "END_KIND",
    "EXPORTED",
    "FORM_VERSION",
    "HEADER_KIND",
    "Choice",
    "ExportEnd",
    "ExportHeader",
    "LineDigest",
    "PoolExport",
    "anonymise",
]
