"""Stop strings: finds the earliest token whose text completes one of them."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

Decode: TypeAlias = Callable[[Sequence[int]], str]
"""The text of token ids, special tokens included; an incomplete character at either end becomes U+FFFD."""

_INCOMPLETE = "\ufffd"
_LONGEST = 8
"""Tokens after which an incomplete character counts as complete: UTF-8 has at most four bytes, so it is invalid."""


class StopStrings:
    """Watches the text of one continuation. Single use.

    Only a few tokens are decoded for each new one: those of the last complete characters, for the spaces that a
    tokenizer writes between tokens, and those of an incomplete character (as in vLLM's and TGI's detokenizers).
    """

    def __init__(self, strings: Sequence[str], decode: Decode) -> None:
        """``strings``: not empty."""
        self._strings = strings
        self._decode = decode
        self._kept = max(map(len, strings)) - 1
        """Characters at the end of the text with which a later token may complete a string."""
        self._before: list[int] = []
        """The tokens of the last complete characters."""
        self._new: list[int] = []
        """The tokens after them."""
        self._text = ""

    def push(self, token: int) -> bool:
        """True if the token completes a stop string."""
        self._new.append(token)
        text = self._decode([*self._before, *self._new])[len(self._decode(self._before)) :]
        is_incomplete = text.endswith(_INCOMPLETE) and len(self._new) < _LONGEST
        seen = self._text + text
        if not is_incomplete:
            self._before, self._new = self._new, []
            self._text = seen[-self._kept :] if self._kept else ""
        return any(string in seen for string in self._strings)
