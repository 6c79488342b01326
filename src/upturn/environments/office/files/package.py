"""Checks of Office Open XML files as zip archives of XML, before any library opens them; errors of the libraries.

Order of checks: size, magic number, complete zip archive without encryption, unpacked size as stated, kind of
document, macros, then for each part its unpacked size as counted, its checksum, no document type in any XML (so
there are no entities), and the numbers of tags, cells, paragraphs and spanned columns. Nothing is written to disk.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from io import BytesIO
from typing import Literal
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from upturn.environments.office.state import column_number
from upturn.errors import FileFormatError, error_text

INSTALL = "pip install 'upturn[files]'"
PackageKind = Literal["workbook", "document", "presentation"]
MAX_BYTES = 32 * 2**20
MAX_UNPACKED = 64 * 2**20
"""Bytes of all parts together. Archives of a few kilobytes can claim terabytes."""
_CHUNK = 2**16
"""Bytes unpacked at once while they are counted."""
_MAX_PARTS = 4_000
_MAX_ELEMENTS = 200_000
"""Cells or paragraphs: a few seconds of reading, ten times the office's largest tables."""
_MAX_TAGS = 2_000_000
"""Tags of a part: twice those of the largest table. Reading two million takes up to 16 seconds."""
_MAX_SPAN = 1_000
"""Columns that one cell of a text table may span; Word's own limit is 63."""
_ZIP, _OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MAIN: Mapping[PackageKind, bytes] = {
    "workbook": b"spreadsheetml.sheet.main+xml",
    "document": b"wordprocessingml.document.main+xml",
    "presentation": b"presentationml.presentation.main+xml",
}
_ENDING: Mapping[PackageKind, str] = {"workbook": ".xlsx", "document": ".docx", "presentation": ".pptx"}
_CONTENT_TYPES = "[Content_Types].xml"
_ENCODING = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([^"']*)["']""")
_ENCODINGS = frozenset({"utf-8", "utf-16", "utf-16le", "utf-16be", "us-ascii", "ascii", "iso-8859-1"})
"""Supported encodings; with others, a parser could read content that the checks miss."""
_ELEMENT = re.compile(r"<(?:\w+:)?(?:c|row|p|tr|tc)[\s/>]")
_SPAN = re.compile(r"<(?:\w+:)?(?:gridSpan|gridBefore|gridAfter)\s[^>]*?[\"'](-?[0-9]+)[\"']")
_SPANNED = re.compile(r"\bgridSpan=[\"'](-?[0-9]+)[\"']")
_MERGED = re.compile(r"<(?:\w+:)?mergeCell\s[^>]*?ref=[\"']([A-Z]+)([0-9]+):([A-Z]+)([0-9]+)[\"']")
_STRICT = b"purl.oclc.org/ooxml"
NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML can hold."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time in a zip archive."""


@contextmanager
def require_extra(needed_for: str) -> Iterator[None]:
    """Wraps the import of a library: raises FileFormatError with the install command if it is missing.

    ``needed_for``: such as ``.xlsx files``.
    """
    try:
        yield
    except ImportError as exc:
        raise FileFormatError(
            f"{needed_for} need the package {exc.name!r}, which is not installed: {INSTALL}"
        ) from exc


def check_package(data: bytes, kind: PackageKind) -> None:
    """Raises FileFormatError for a file that is not a safe package of this kind."""
    if len(data) > MAX_BYTES:
        raise FileFormatError(f"it has {len(data)} bytes; at most {MAX_BYTES} are read")
    if data.startswith(_OLE):
        raise FileFormatError(
            f"it is encrypted, or in the format of before 2007; save it as {_ENDING[kind]} without a password"
        )
    if not data.startswith(_ZIP):
        raise FileFormatError(f"it is no {_ENDING[kind]} file: it begins with {data[:8]!r}, not with {_ZIP!r}")
    try:
        with ZipFile(BytesIO(data)) as archive:
            _check_archive(archive)
            _check_kind(archive, kind)
            for part in archive.infolist():
                _check_part(part.filename, _unpack(archive, part))
    except (BadZipFile, EOFError, NotImplementedError, KeyError, ValueError, OSError, RuntimeError) as exc:
        if isinstance(exc, FileFormatError):
            raise
        raise FileFormatError(f"it is damaged or cut off ({error_text(exc, longest=120)})") from exc
    except Exception as exc:  # decompressors have errors of their own, such as zlib.error
        raise FileFormatError(f"it is damaged ({error_text(exc, longest=120)})") from exc


def _check_archive(archive: ZipFile) -> None:
    parts = archive.infolist()
    if len(parts) > _MAX_PARTS:
        raise FileFormatError(f"it has {len(parts)} parts; at most {_MAX_PARTS} are read")
    if any(part.flag_bits & 1 for part in parts):
        raise FileFormatError("it is encrypted; save it without a password")
    if any(part.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for part in parts):
        raise FileFormatError("it is compressed in a way that office files never are; save it in an office program")
    unpacked = sum(part.file_size for part in parts)
    if unpacked > MAX_UNPACKED:
        raise FileFormatError(f"it unpacks to {unpacked} bytes; at most {MAX_UNPACKED} are read")


def _unpack(archive: ZipFile, part: ZipInfo) -> bytes:
    """The content of a part; raises FileFormatError as soon as it exceeds the size that the archive states.

    ``ZipFile.read`` unpacks a whole part before it cuts it to the stated size. Chunks bound the memory of deflated
    parts only: other decompressors of the library give all that they can.
    """
    unlimited = copy(part)
    unlimited.file_size = MAX_UNPACKED + _CHUNK  # otherwise the stream ends at the stated size
    chunks: list[bytes] = []
    size = 0
    with archive.open(unlimited) as stream:
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            if size > part.file_size:
                raise FileFormatError(
                    f"{part.filename} unpacks to more than the {part.file_size} bytes that the archive states; "
                    "save it again in an office program"
                )
            chunks.append(chunk)
    return b"".join(chunks)


def _check_kind(archive: ZipFile, kind: PackageKind) -> None:
    names = archive.namelist()
    types = _unpack(archive, archive.getinfo(_CONTENT_TYPES)) if _CONTENT_TYPES in names else b""
    if b"macroEnabled" in types or any(name.lower().endswith("vbaproject.bin") for name in names):
        raise FileFormatError(f"it has macros, which are never run or kept; save it as {_ENDING[kind]}")
    if _MAIN[kind] not in types:
        is_a = next((f"it is a {other}" for other, main in _MAIN.items() if main in types), "it is something else")
        raise FileFormatError(f"it is no {kind}: {is_a}")


def _check_part(name: str, content: bytes) -> None:
    if not name.lower().endswith((".xml", ".rels", ".vml")):
        return
    text = _xml_text(name, content)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise FileFormatError(f"{name} declares a document type or entities, which office files never have")
    if _STRICT in content[:4_000]:
        raise FileFormatError("it is of the Strict variant; save it as the ordinary one")
    if (tags := text.count("<")) > _MAX_TAGS:
        raise FileFormatError(f"{name} has {tags} tags; at most {_MAX_TAGS} are read")
    count = sum(1 for _ in _ELEMENT.finditer(text)) + sum(map(_merged_size, _MERGED.findall(text)))
    if count > _MAX_ELEMENTS:
        raise FileFormatError(f"{name} has {count} cells or paragraphs; at most {_MAX_ELEMENTS} are read")
    spans = [int(span) for pattern in (_SPAN, _SPANNED) for span in pattern.findall(text)]
    if max(spans, default=0) > _MAX_SPAN:
        raise FileFormatError(f"{name} has a cell over {max(spans)} columns; at most {_MAX_SPAN} are read")


def _xml_text(name: str, content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    match = _ENCODING.match(content.removeprefix(b"\xef\xbb\xbf"))
    encoding = match[1].decode("ascii", "replace").lower() if match else "utf-8"
    if encoding not in _ENCODINGS or b"\x00" in content:
        raise FileFormatError(f"{name} is written in {encoding!r}; UTF-8 is allowed")
    return content.decode("utf-8", "replace")


def _merged_size(corners: tuple[str, str, str, str]) -> int:
    left, top, right, bottom = corners
    return (abs(column_number(right[:4]) - column_number(left[:4])) + 1) * (abs(int(bottom[:8]) - int(top[:8])) + 1)


def check_text(*texts: str) -> None:
    """Raises FileFormatError for characters that no XML can hold."""
    for text in texts:
        if match := NO_XML.search(text):
            raise FileFormatError(f"an office file cannot hold the character {match[0]!r}, as in {text[:60]!r}")


@contextmanager
def parse_errors(what: str) -> Iterator[None]:
    """Wraps a library's reader: any exception becomes a FileFormatError, since only the file can be the cause."""
    try:
        yield
    except FileFormatError:
        raise
    except Exception as exc:  # libraries raise errors of any kind for damaged files
        raise FileFormatError(f"it is no {what} that can be read ({error_text(exc, longest=200)})") from exc


def count_matches(data: bytes, pattern: re.Pattern[bytes]) -> int:
    """The number of matches in the XML parts of a package that was checked."""
    with ZipFile(BytesIO(data)) as archive:
        parts = [part for part in archive.infolist() if part.filename.lower().endswith(".xml")]
        return sum(1 for part in parts for _ in pattern.finditer(archive.read(part)))


def repack(data: bytes, change: Callable[[str, bytes], bytes] = lambda _name, content: content) -> bytes:
    """The archive with constant timestamps, so that equal contents are equal bytes.

    ``change``: the new content of a part, from its name and content.
    """
    target = BytesIO()
    with ZipFile(BytesIO(data)) as source, ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for part in source.infolist():
            info = ZipInfo(part.filename, _EPOCH)
            info.compress_type = ZIP_DEFLATED
            archive.writestr(info, change(part.filename, source.read(part)))
    return target.getvalue()
