"""Escapes of characters that XML cannot hold, in the parts of workbooks: ``_x0007_``, as in Excel.

The libraries support escapes only in part. Texts therefore contain marks, which are replaced by escapes in the
written file; before a file is read, its escapes are replaced by marks. The underscore of texts that look like
escapes is escaped too (``_x005F_x0007_``).
"""

import re

from upturn.environments.office.files.package import NO_XML

_MARK = "\ufdd0"
"""Precedes four hex digits. A Unicode noncharacter for internal use; where a text contains it, it is marked
itself."""
_UNSAFE = re.compile(f"_(?=x[0-9A-Fa-f]{{4}}_)|[\r{_MARK}]|{NO_XML.pattern}")
_MARKED = re.compile(f"{_MARK}([0-9A-Fa-f]{{4}})")
_MARKED_BYTES = re.compile(_MARK.encode() + rb"([0-9A-F]{4})")
_ESCAPED = re.compile(rb"_x(?![Dd][89A-Fa-f])([0-9A-Fa-f]{4})_|x(?=005F_)|" + _MARK.encode())
"""Escapes of characters; sequences that openpyxl always reads as a part of an escape; marks."""
_PARTS = re.compile(r"xl/(?:sharedStrings|comments?[^.]*|worksheets/[^/]*)\.xml", re.IGNORECASE)


def mark(text: str) -> str:
    """The text with marks for characters that XML cannot hold."""
    return _UNSAFE.sub(lambda match: f"{_MARK}{ord(match[0]):04X}", text)


def unmark(text: str) -> str:
    """The inverse of ``mark``."""
    return _MARKED.sub(lambda match: chr(int(match[1], 16)), text)


def escape_part(name: str, content: bytes) -> bytes:
    """A part of a written workbook, with escapes for marks."""
    return _MARKED_BYTES.sub(rb"_x\1_", content) if _PARTS.fullmatch(name) else content


def mark_part(name: str, content: bytes) -> bytes:
    """A part of a workbook to be read, with marks for escapes."""
    return _ESCAPED.sub(_mark_match, content) if _PARTS.fullmatch(name) else content


def _mark_match(match: re.Match[bytes]) -> bytes:
    code = match[1] or f"{ord(match[0].decode()):04X}".encode()
    return _MARK.encode() + code
