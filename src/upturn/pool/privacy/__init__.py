"""Personal data and secrets in texts: detection, and masking.

Not here: which fields of records hold texts (``upturn.pool.exports``). Start with ``patterns``.
"""

from upturn.pool.privacy.patterns import findings, has_findings, redact, redact_json

__all__ = ["findings", "has_findings", "redact", "redact_json"]
