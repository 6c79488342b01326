"""Personal data and secrets in texts: detection, and replacement.

Not here: which fields of records are replaced in an export (``upturn.pool.exports``). Start with ``detection``,
which has the list of detectors, then ``replacement``.
"""

from upturn.pool.privacy.content import has_findings
from upturn.pool.privacy.detection import findings
from upturn.pool.privacy.finding import Detector, Finding, FindingKind
from upturn.pool.privacy.replacement import mask, redact, redact_json, replace_json

__all__ = [
    "Detector",
    "Finding",
    "FindingKind",
    "findings",
    "has_findings",
    "mask",
    "redact",
    "redact_json",
    "replace_json",
]
