"""Texts as they read when decoded, with the place of each character in the original.

Decoded are percent-encoding, HTML entities, escapes of JSON and Python, full-width forms and invisible characters,
also several of them one inside the other. Not decoded: base64, compression, encryption.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from html import unescape
from itertools import accumulate
from typing import NamedTuple

_ENCODED = re.compile(
    r"(?:%[0-9A-Fa-f]{2})+"
    r"|&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,10});"
    r"|\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[nrtbf\"'/\\])"
    r"|[\u00ad\u200b-\u200f\u2060\ufeff]+"
    r"|[\uff01-\uff5e]"
)
_HINT = re.compile("[%&\\\\\u00ad\u200b-\u200f\u2060\ufeff\uff01-\uff5e]")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_DEPTH = 3
"""Layers of encoding that are undone, such as a URL in JSON in JSON."""


class Decoded(NamedTuple):
    """A decoded text."""

    text: str
    starts: list[int]
    """Positions in the decoded text at which pieces start, ascending, from 0."""
    origins: list[tuple[int, int, bool]]
    """Of each piece: start and stop in the original, and whether it is the original's text unchanged."""

    def place(self, start: int, stop: int) -> tuple[int, int]:
        """Returns the part of the original that the part of the decoded text stands for."""
        first = bisect_right(self.starts, start) - 1
        last = bisect_right(self.starts, stop - 1) - 1
        begin, _, is_same = self.origins[first]
        if is_same:
            begin += start - self.starts[first]
        origin, end, is_same = self.origins[last]
        if is_same:
            end = origin + stop - self.starts[last]
        return begin, end

    def windows(self, reach: int) -> list[tuple[int, int]]:
        """Returns the parts of the decoded text that are at most ``reach`` characters from a decoded piece."""
        windows: list[tuple[int, int]] = []
        for number, (start, (_, _, is_same)) in enumerate(zip(self.starts, self.origins, strict=True)):
            if is_same:
                continue
            stop = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.text)
            begin, end = max(0, start - reach), min(len(self.text), stop + reach)
            if windows and begin <= windows[-1][1]:
                begin = windows.pop()[0]
            windows.append((begin, end))
        return windows


def decodings(text: str) -> Iterator[list[Decoded]]:
    """Yields the layers that lead to each decoded form of the text, one more each time."""
    layers: list[Decoded] = []
    for _ in range(_DEPTH):
        if not _HINT.search(text) or (decoded := _decode(text)) is None:
            return
        layers = [*layers, decoded]
        yield layers
        text = decoded.text


def _decode(text: str) -> Decoded | None:
    """Returns the text with one layer of encoding undone; None = it has none."""
    pieces: list[str] = []
    origins: list[tuple[int, int, bool]] = []
    end = 0
    for match in _ENCODED.finditer(text):
        meaning = _meaning(match[0])
        if meaning == match[0]:
            continue
        if match.start() > end:
            pieces.append(text[end : match.start()])
            origins.append((end, match.start(), True))
        pieces.append(meaning)
        origins.append((match.start(), match.end(), False))
        end = match.end()
    if not pieces:
        return None
    if end < len(text):
        pieces.append(text[end:])
        origins.append((end, len(text), True))
    kept = [(piece, origin) for piece, origin in zip(pieces, origins, strict=True) if piece]
    starts = [0, *accumulate(len(piece) for piece, _ in kept)][: len(kept)]
    return Decoded("".join(piece for piece, _ in kept), starts, [origin for _, origin in kept])


def _meaning(encoded: str) -> str:
    """Returns what an encoded piece stands for; the piece itself if that is unknown."""
    if encoded[0] == "%":
        return bytes.fromhex(encoded.replace("%", "")).decode("utf-8", "replace")
    if encoded[0] == "&":
        return unescape(encoded)
    if encoded[0] == "\\":
        if encoded[1] in "ux":
            code = int(encoded[2:], 16)
            return encoded if 0xD800 <= code < 0xE000 else chr(code)
        return _ESCAPES.get(encoded[1], encoded[1])
    if len(encoded) == 1 and "\uff01" <= encoded <= "\uff5e":
        return chr(ord(encoded) - 0xFEE0)
    return ""
