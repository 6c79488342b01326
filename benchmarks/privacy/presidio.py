"""Presidio's pattern recognisers as a detector, for comparison: no language model.

Needs ``presidio-analyzer``, which is no dependency of Upturn; install it into an environment that is thrown away.
Its e-mail recogniser asks the network for a list of domains and goes on without.
"""

from importlib import import_module
from typing import Any

from benchmarks.privacy.measurement import Detect
from upturn.pool.privacy import Finding

_LOWEST_SCORE = 0.35
"""Below it are patterns such as any nine digits, which need a word of context that Presidio finds with its language
model."""


def presidio_detector() -> Detect:
    """Returns a function of a text that returns what all pattern recognisers find, as findings."""
    base = import_module("presidio_analyzer").PatternRecognizer
    known = vars(import_module("presidio_analyzer.predefined_recognizers"))
    recognizers: list[Any] = []
    for _, cls in sorted(known.items()):
        if isinstance(cls, type) and issubclass(cls, base) and cls is not base:
            try:
                recognizers.append(cls())
            except TypeError:  # one that needs settings
                continue

    def detect(text: str) -> list[Finding]:
        matches = [
            match
            for recognizer in recognizers
            for match in recognizer.analyze(text, recognizer.supported_entities, None) or ()
        ]
        return [Finding("id", match.start, match.end) for match in matches if match.score >= _LOWEST_SCORE]

    return detect
