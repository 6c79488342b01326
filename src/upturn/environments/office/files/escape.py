"""Characters that no XML can hold, in the parts of workbooks: as ``_x0007_``, which is Excel's way.

The libraries do half of it each, so they are given marks instead, and the escapes are put in place of the marks in
the finished file, and the other way round before a file is read. Texts that look like escapes come back too: their
underscore is one (``_x005F_x0007_``).
"""

import re

from upturn.environments.office.files.package import NO_XML

_MARK = "\ufdd0"
"""Before four hex digits. Unicode keeps it for the inside of programs; where a text has it, it is marked itself."""
_UNSAFE = re.compile(f"_(?=x[0-9A-Fa-f]{{4}}_)|[\r{_MARK}]|{NO_XML.pattern}")
_MARKED = re.compile(f"{_MARK}([0-9A-Fa-f]{{4}})")
_MARKED_BYTES = re.compile(_MARK.encode() + rb"([0-9A-F]{4})")
_ESCAPED = re.compile(rb"_x(?![Dd][89A-Fa-f])([0-9A-Fa-f]{4})_|x(?=005F_)|" + _MARK.encode())
"""Escapes of whole characters; what openpyxl takes for a part of an escape wherever it stands; marks."""
_PARTS = re.compile(r"xl/(?:sharedStrings|comments?[^.]*|worksheets/[^/]*)\.xml", re.IGNORECASE)


def marked(text: str) -> str:
    """The text with marks in place of characters that XML cannot hold."""
    return _UNSAFE.sub(lambda match: f"{_MARK}{ord(match[0]):04X}", text)


def unmarked(text: str) -> str:
    """The inverse of ``marked``."""
    return _MARKED.sub(lambda match: chr(int(match[1], 16)), text)


def escaped_part(name: str, content: bytes) -> bytes:
    """A part of a written workbook, with escapes in place of marks."""
    return _MARKED_BYTES.sub(rb"_x\1_", content) if _PARTS.fullmatch(name) else content


def marked_part(name: str, content: bytes) -> bytes:
    """A part of a workbook that is to be read, with marks in place of escapes."""
    return _ESCAPED.sub(_mark, content) if _PARTS.fullmatch(name) else content


def _mark(match: re.Match[bytes]) -> bytes:
    code = match[1] or f"{ord(match[0].decode()):04X}".encode()
    return _MARK.encode() + code
