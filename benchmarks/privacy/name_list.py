"""A list of names as a detector of persons, for comparison: no context, no addresses."""

import re

from benchmarks.privacy.measurement import Detect
from upturn.loop.tagger import all_names
from upturn.pool.privacy import Finding

_WORD = re.compile(r"[^\W\d_]+")


def name_list_detector() -> Detect:
    """Returns a function of a text that returns all words with a capital that the tagger's lists have as a name."""
    names = frozenset(part for name in all_names("train") for part in _WORD.findall(name.casefold()))

    def detect(text: str) -> list[Finding]:
        matches = (match for match in _WORD.finditer(text) if match[0][0].isupper())
        return [Finding("person", *match.span()) for match in matches if match[0].casefold() in names]

    return detect
