"""The parts of a text that may be numbers of cards, telephones or persons."""

import re
from typing import NamedTuple

_RUN = re.compile("[+(0-9][-0-9 +()./\u00a0\u2009\u202f\u2010-\u2013]{5,}[0-9]")
_DATES = re.compile(r"(?:(?:19|20)\d\d-[01]\d-[0-3]\d[ /.-]*)+$")
_DIGITS = frozenset("0123456789")
_BEHIND = 16
"""Characters behind a run that its number may go on with, such as an extension or a letter."""
_FEWEST = 7


class DigitRun(NamedTuple):
    """Digits with their separators, seven digits or more."""

    start: int
    stop: int
    """With what follows and may belong to it."""
    digits: int
    """Number of digits."""


def digit_runs(text: str) -> list[DigitRun]:
    """Returns the runs of a text, except those that are only dates of the form 2024-05-20."""
    runs: list[DigitRun] = []
    for match in _RUN.finditer(text):
        digits = sum(character in _DIGITS for character in match[0])
        if runs:  # what is behind a run ends where the next one starts
            runs[-1] = runs[-1]._replace(stop=min(runs[-1].stop, match.start()))
        if digits >= _FEWEST and not _DATES.match(match[0]):
            runs.append(DigitRun(match.start(), min(len(text), match.end() + _BEHIND), digits))
    return runs
