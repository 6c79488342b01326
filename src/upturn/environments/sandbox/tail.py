"""The last part of an output of any length."""


class Tail:
    """Keeps the last ``limit`` bytes of what it gets, in memory of at most twice that and one piece."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.is_cut = False

    def add(self, piece: bytes) -> None:
        """The beginning is dropped when it is too much."""
        self._kept += piece
        if len(self._kept) > 2 * self._limit:  # not at every piece: each deletion moves the rest
            self._cut()

    def text(self) -> str:
        """Of at most ``limit`` bytes; a character that a cut split is dropped, what is no UTF-8 is replaced."""
        if len(self._kept) > self._limit:
            self._cut()
        while self.is_cut and self._kept and self._kept[0] & 0xC0 == 0x80:
            del self._kept[0]
        return self._kept.decode(errors="replace")

    def _cut(self) -> None:
        del self._kept[: len(self._kept) - self._limit]
        self.is_cut = True
