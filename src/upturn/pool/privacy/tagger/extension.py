"""What belongs to a name or an address beside the part that the network found: the next word with a capital that is
no ordinary word, the postal code behind a town, the number before a street.
"""

import re
from collections.abc import Callable

from upturn.pool.privacy.finding import FindingKind

_CODE_BEHIND = re.compile(r"[ ,\n]{1,2}(?:[A-Z]{2,3} )?\d{4,6}(?:-\d{3,4})?(?![\w@.:/-])")
_NUMBER_BEFORE = re.compile(r"(?<![\w.:/-])\d{1,5}[A-Za-z]?(?:, | )$")
_WORD_BEHIND = re.compile(r"(?:[ -]|-| [A-Z]\. )([^\W\d_]{2,}(?:['’][^\W\d_]+)?)(?![\w(@])")
_WORD_BEFORE = re.compile(r"(?<![\w.@/'-])([^\W\d_]{2,})(?:[ -]| [A-Z]\. )$")
_REACH = 40
_MOST = 3
"""Words on either side."""


def extended(
    kind: FindingKind, text: str, start: int, stop: int, *, is_word: Callable[[str], bool]
) -> tuple[int, int]:
    """Returns the borders with what belongs to the finding; ``is_word``: whether a word is an ordinary one."""
    if kind == "address":
        behind, before = _CODE_BEHIND.match(text, stop), _NUMBER_BEFORE.search(text[max(0, start - _REACH) : start])
        return start - (len(before[0]) if before else 0), behind.end() if behind else stop
    if kind != "person" or not text[start].isupper():
        return start, stop
    for _ in range(_MOST):
        match = _WORD_BEHIND.match(text, stop)
        if match is None or not _is_name(match[1], is_word):
            break
        stop = match.end()
    for _ in range(_MOST):
        match = _WORD_BEFORE.search(text[max(0, start - _REACH) : start])
        if match is None or not _is_name(match[1], is_word):
            break
        start -= len(match[0])
    return start, stop


def _is_name(word: str, is_word: Callable[[str], bool]) -> bool:
    return word[0].isupper() and not is_word(word)
