"""How good the stored evidence is: quality gates of a data point, coverage, and readiness for training.

Not here: statistics of agents and families (``upturn.pool.statistics``). Start with ``gate``, the list of gates;
``inspection`` has those of one data point, ``validation`` those of a whole selection.
"""

from upturn.pool.quality.agreement import ReaderOf, TextReader, no_tokenizers
from upturn.pool.quality.anonymity import Anonymity, anonymity
from upturn.pool.quality.coverage import COVERAGE_BARS, IMPORTED, Coverage, Share, coverage
from upturn.pool.quality.gate import GATES, Gate
from upturn.pool.quality.inspection import inspect, missing_reward
from upturn.pool.quality.readiness import check, readiness, survey
from upturn.pool.quality.validation import GateReport, ValidationReport, validate_quality

__all__ = [
    "COVERAGE_BARS",
    "GATES",
    "IMPORTED",
    "Anonymity",
    "Coverage",
    "Gate",
    "GateReport",
    "ReaderOf",
    "Share",
    "TextReader",
    "ValidationReport",
    "anonymity",
    "check",
    "coverage",
    "inspect",
    "missing_reward",
    "no_tokenizers",
    "readiness",
    "survey",
    "validate_quality",
]
