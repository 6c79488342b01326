"""Personal data and secrets in texts and records: detection, masks and pseudonyms.

Not here: the keys of pseudonyms (``upturn.pool.access``). Start with ``detection``, which has the list of
detectors, then ``replacement``, ``pseudonym`` and ``anonymiser``.
"""

from upturn.pool.privacy.anonymiser import anonymise, names_of, replacement_of
from upturn.pool.privacy.content import has_findings
from upturn.pool.privacy.detection import findings
from upturn.pool.privacy.encoding import decodings
from upturn.pool.privacy.finding import Detector, Finding, FindingKind
from upturn.pool.privacy.known_name import KnownNames
from upturn.pool.privacy.phone import phone_spellings
from upturn.pool.privacy.pseudonym import KEY_BYTES, Pseudonymiser
from upturn.pool.privacy.replacement import (
    Replacement,
    Replacer,
    mask,
    redact,
    redact_json,
    replace_json,
    replace_text,
)
from upturn.pool.privacy.tagger import SHIPPED as SHIPPED_TAGGER

__all__ = [
    "KEY_BYTES",
    "SHIPPED_TAGGER",
    "Detector",
    "Finding",
    "FindingKind",
    "KnownNames",
    "Pseudonymiser",
    "Replacement",
    "Replacer",
    "anonymise",
    "decodings",
    "findings",
    "has_findings",
    "mask",
    "names_of",
    "phone_spellings",
    "redact",
    "redact_json",
    "replace_json",
    "replace_text",
    "replacement_of",
]
