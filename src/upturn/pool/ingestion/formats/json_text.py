"""JSON lines and the items of JSON arrays, one at a time, so that memory is bounded by the longest of them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from upturn.pool.ingestion.formats.conversation import LineError
from upturn.pool.ingestion.recording import DamagedFileError, open_recording

LONGEST_LINE = 32 * 2**20
"""Bytes; a longer line or item is quarantined without loading it into memory."""

_BLOCK = 2**18
_BOM = b"\xef\xbb\xbf"


class TextLine(NamedTuple):
    """A line of a file, or an item of an array."""

    number: int
    """From 1."""
    text: bytes | LineError


def text_lines(path: Path) -> Iterator[TextLine]:
    """Yields each line of the file, decompressed; see ``stream_lines``."""
    with open_recording(path) as file:
        yield from stream_lines(file)


def stream_lines(file: BinaryIO) -> Iterator[TextLine]:
    """Yields each line that is not blank; a damaged file ends with an error. Raises OSError."""
    number = 0
    try:
        for line in _lines(file):
            number += 1
            if line is None:
                yield TextLine(number, LineError(f"the line is longer than {LONGEST_LINE} bytes; split it"))
                continue
            text = line.removeprefix(_BOM).strip()
            if text:
                yield TextLine(number, text)
    except DamagedFileError as exc:
        yield TextLine(number + 1, LineError(f"{exc}; the rest of the file is not read"))


def _lines(file: BinaryIO) -> Iterator[bytes | None]:
    """Yields the lines; None = a line that is too long."""
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) <= LONGEST_LINE:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(LONGEST_LINE)
        yield None


LARGEST_OBJECT = 2**28
"""Bytes of a file that is one object; it is parsed at once and takes about ten times as much memory."""


def json_objects(file: BinaryIO) -> Iterator[TextLine]:
    """Yields the items of an array, the lines, or the one object that is the whole file and has several lines."""
    items = array_items(file)
    if items is not None:
        yield from items
        return
    first = file.readline(LONGEST_LINE + 1)
    if first.rstrip().endswith((b"{", b"[", b",")):
        text = first + file.read(LARGEST_OBJECT)
        is_whole = not file.read(1)
        problem = LineError(f"the file is one object of more than {LARGEST_OBJECT} bytes; split it")
        yield TextLine(1, text.removeprefix(_BOM) if is_whole else problem)
        return
    yield from stream_lines(cast(BinaryIO, _Chained(first, file)))


class _Chained:
    """A file whose first line was read."""

    def __init__(self, first: bytes, file: BinaryIO) -> None:
        self._first, self._file = first, file

    def readline(self, size: int) -> bytes:
        line, self._first = self._first, b""
        return line or self._file.readline(size)


_INSIDE = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
"""Text inside of an item up to a bracket, or to a string that the block does not end."""
_BETWEEN = re.compile(rb'(?:[^"\[\]{},]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
"""The same outside of brackets, up to a comma as well."""
_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
"""Text of a string up to its end."""


def array_items(file: BinaryIO) -> Iterator[TextLine] | None:
    """Returns the items of the array that the file begins with; None = it begins with something else.

    Items are cut at brackets and commas and not checked. After the last one comes an error if the array does not
    end, or something follows it. Raises OSError.
    """
    start = b""
    while not start and (block := file.peek(_BLOCK)):  # type: ignore[attr-defined]  # it is buffered
        start = block.removeprefix(_BOM).lstrip()[:1]
        file.read(len(block) if not start else 0)
    if start != b"[":
        return None
    block = file.read(_BLOCK).removeprefix(_BOM).lstrip()
    return _items(file, block[1:] or file.read(_BLOCK))


class _Item:
    """The bytes of one item, as far as they are not too many."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._is_long = False

    def add(self, part: bytes) -> None:
        self._is_long = self._is_long or len(self._bytes) + len(part) > LONGEST_LINE
        if self._is_long:
            self._bytes.clear()
        else:
            self._bytes += part

    def take(self) -> bytes | LineError:
        """Returns the item, and begins the next one."""
        is_long, text = self._is_long, bytes(self._bytes.strip())
        self._is_long = False
        self._bytes.clear()
        return LineError(f"the item is longer than {LONGEST_LINE} bytes; split it") if is_long else text


class _Scanner:
    """Cuts an array into its items."""

    def __init__(self) -> None:
        self._is_over = False
        self.rest = b""
        """What follows the array in the last block."""
        self._item = _Item()
        self._depth = 0
        self._is_string = False
        self._escape = b""
        """A backslash at the end of the block before."""

    def scan(self, block: bytes) -> Iterator[bytes | LineError]:
        """Yields the items that end in the block; the array's last one may be blank."""
        block, self._escape = self._escape + block, b""
        start = position = 0
        while (position := self._next_token(block, position)) < len(block):
            token = block[position : position + 1]
            if token == b"\\":
                self._escape = token
                break
            position += 1
            if token == b'"':
                self._is_string = not self._is_string
            elif token in b"[{":
                self._depth += 1
            elif self._depth:
                self._depth -= 1
            else:
                self._item.add(block[start : position - 1])
                start = position
                if token != b",":
                    self._is_over, self.rest = True, block[position:]
                yield self._item.take()
                if self._is_over:
                    return
        self._item.add(block[start:position])

    def is_over(self) -> bool:
        """Whether the array has ended."""
        return self._is_over

    def last(self) -> bytes | LineError:
        """Returns the item that the end of the file cut off; empty = it is not complete."""
        item = self._item.take()
        return item if not self._depth and not self._is_string and not self._escape else b""

    def _next_token(self, block: bytes, position: int) -> int:
        """Returns the position of the next bracket, of a comma between items, of a quotation mark that the block
        does not match, or of a backslash that ends the block within a string; its end if there is none."""
        pattern = _STRING if self._is_string else _INSIDE if self._depth else _BETWEEN
        match = pattern.match(block, position)
        return len(block) if match is None else match.end()


def _items(file: BinaryIO, block: bytes) -> Iterator[TextLine]:
    number, scanner, problem = 0, _Scanner(), "the array does not end"
    try:
        while block and not scanner.is_over():
            for item in scanner.scan(block):
                if item == b"" and scanner.is_over() and number == 0:
                    continue  # an array without items
                number += 1
                yield TextLine(number, item or LineError("not JSON: the array has an empty item"))
            block = file.read(_BLOCK) if not scanner.is_over() else b""
        if not scanner.is_over() and (cut := scanner.last()):
            number += 1
            yield TextLine(number, cut)
        if scanner.is_over():
            after = (scanner.rest + file.read(_BLOCK)).strip()[:20]
            problem = f"expected the end of the file after the array, got {after!r}" if after else ""
    except DamagedFileError as exc:
        problem = str(exc)
    if problem:
        yield TextLine(number + 1, LineError(f"not JSON: {problem}; the rest of the file is not read"))
