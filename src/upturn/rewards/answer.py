"""Whether a final answer is the right one, however it is written. Pure functions.

Not covered: meaning. Another wording of the same answer is another answer.
"""

import re
import unicodedata
from decimal import Decimal, InvalidOperation

_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d{1,3})?", re.IGNORECASE)
_AROUND = " \t\r\n\"'`*"
"""Quotes and marks of emphasis around an answer."""


def normalised_answer(text: str) -> str:
    """The text without what does not matter: case, runs of space, quotes around it, a full stop at its end.

    A number is written in one way: ``1,236.00`` and ``+1236`` are ``1236``.
    """
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().strip(_AROUND).split())
    plain = plain.removesuffix(".").strip(_AROUND)
    if _NUMBER.fullmatch(plain):
        try:
            number = Decimal(plain.replace(",", ""))
        except InvalidOperation:
            return plain
        return "0" if number == 0 else f"{number.normalize():E}"
    return plain


def is_same_answer(answer: str, right: str) -> bool:
    """Whether both are the same once normalised; an empty answer never is."""
    normalised = normalised_answer(answer)
    return bool(normalised) and normalised == normalised_answer(right)
