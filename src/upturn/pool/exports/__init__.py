"""Export of records, anonymised by default.

Not here: what counts as personal data (``upturn.pool.privacy``). Start with ``exporter``.
"""

from upturn.pool.exports.exporter import Exported, anonymise, export

__all__ = ["Exported", "anonymise", "export"]
