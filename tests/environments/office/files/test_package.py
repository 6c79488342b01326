"""Problems of office files, found before any library opens them."""

import struct
import tracemalloc
from io import BytesIO
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZipFile

import pytest

from upturn.environments.office.files import package
from upturn.environments.office.files.package import check_package, parse_errors, repack
from upturn.errors import FileFormatError

TYPES = "[Content_Types].xml"
WORKBOOK = b"<Types>application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml</Types>"
SHEET = "xl/worksheets/sheet1.xml"


def zip_workbook(**parts: bytes | str) -> bytes:
    """Returns an archive that claims to be a workbook with a sheet; ``types``, ``sheet`` and ``more`` replace or
    add parts."""
    target = BytesIO()
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        archive.writestr(TYPES, parts.get("types", WORKBOOK))
        archive.writestr(SHEET, parts.get("sheet", b"<worksheet/>"))
        if "more" in parts:
            archive.writestr("xl/vbaProject.bin", parts["more"])
    return target.getvalue()


def encrypt(data: bytes) -> bytes:
    """Returns the data with the encryption flag of the first part set, in both headers."""
    changed = bytearray(data)
    directory = data.index(b"PK\x01\x02")
    for at in (6, directory + 8):
        changed[at : at + 2] = struct.pack("<H", struct.unpack_from("<H", changed, at)[0] | 1)
    return bytes(changed)


def flip_byte(data: bytes) -> bytes:
    """Returns the data with one byte of the last part's content changed."""
    at = data.index(SHEET.encode()) + len(SHEET) + 3
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def test_a_valid_file_is_accepted() -> None:
    check_package(zip_workbook(), "workbook")


DTD = "<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><worksheet>&e;</worksheet>"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no .xlsx file: it begins with b''"),
        (b"<html>", "no .xlsx file: it begins with b'<html>'"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "encrypted, or in the format of before 2007"),
        (zip_workbook()[:-30], "damaged or cut off"),
        (zip_workbook()[:40], "damaged or cut off"),
        (flip_byte(zip_workbook()), "damaged"),
        (encrypt(zip_workbook()), "it is encrypted"),
        (
            zip_workbook(types=WORKBOOK.replace(b"spreadsheetml.sheet", b"wordprocessingml.document")),
            "it is a document",
        ),
        (zip_workbook(types=b"<Types/>"), "it is something else"),
        (zip_workbook(types=WORKBOOK + b"application/vnd.ms-excel.sheet.macroEnabled.main+xml"), "it has macros"),
        (zip_workbook(more=b"Sub Auto_Open()"), "it has macros"),
        (zip_workbook(sheet=DTD), "declares a document type or entities"),
        (zip_workbook(sheet=DTD.encode("utf-16")), "declares a document type or entities"),
        (
            zip_workbook(sheet=b"<?xml version='1.0' encoding='utf-7'?><worksheet/>"),
            "written in 'utf-7'; UTF-8 is allowed",
        ),
        (zip_workbook(sheet=DTD.encode("utf-16-le")), "UTF-8 is allowed"),
        (zip_workbook(sheet=b"<worksheet xmlns='http://purl.oclc.org/ooxml/x'/>"), "Strict variant"),
        (zip_workbook(sheet=b"<c/>" * 200_001), "has 200001 cells or paragraphs; at most 200000"),
        (zip_workbook(sheet=b"<si/>" * 2_000_001), "has 2000001 tags; at most 2000000"),
        (zip_workbook(sheet=b"<mergeCell ref='A1:XFD1048576'/>"), "has 17179869184 cells"),
        (zip_workbook(sheet=b"<w:gridSpan w:val='1000000'/>"), "a cell over 1000000 columns"),
    ],
    ids=range(20),
)
def test_errors_name_the_problem(data: bytes, reason: str) -> None:
    with pytest.raises(FileFormatError) as message:
        check_package(data, "workbook")
    assert reason in str(message.value)


def test_archives_too_large_packed_or_unpacked_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MAX_UNPACKED", 1_000)
    with pytest.raises(FileFormatError, match="it unpacks to 10089 bytes; at most 1000 are read"):
        check_package(zip_workbook(sheet=b" " * 10_000), "workbook")
    monkeypatch.setattr(package, "MAX_BYTES", 100)
    with pytest.raises(FileFormatError, match=r"it has \d+ bytes; at most 100 are read"):
        check_package(zip_workbook(), "workbook")


def understate(data: bytes, size: int) -> bytes:
    """Returns the data with another unpacked size of the last part, in both headers."""
    changed = bytearray(data)
    for at in (data.rindex(b"PK\x03\x04") + 22, data.rindex(b"PK\x01\x02") + 24):
        changed[at : at + 4] = struct.pack("<I", size)
    return bytes(changed)


@pytest.mark.parametrize("part", ["sheet", "types"])
def test_a_part_larger_than_the_archive_states_is_refused_before_it_is_unpacked(part: str) -> None:
    first, last = (TYPES, SHEET) if part == "sheet" else (SHEET, TYPES)
    target = BytesIO()
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        archive.writestr(first, WORKBOOK)
        archive.writestr(last, WORKBOOK + b" " * 40_000_000)
    data = understate(target.getvalue(), 1_000)
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match="unpacks to more than the 1000 bytes that the archive states"):
            check_package(data, "workbook")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000, f"{peak} bytes for a part of 40,000,000 that states 1,000"


@pytest.mark.parametrize("method", [ZIP_BZIP2, ZIP_LZMA])
def test_other_compressions_are_refused_because_they_unpack_without_a_bound(method: int) -> None:
    target = BytesIO()
    with ZipFile(target, "w", method) as archive:
        archive.writestr(TYPES, WORKBOOK)
    with pytest.raises(FileFormatError, match="compressed in a way that office files never are"):
        check_package(target.getvalue(), "workbook")


def test_truncated_files_are_refused() -> None:
    data = zip_workbook(sheet=b"<worksheet>0123456789</worksheet>")
    for length in range(len(data)):
        with pytest.raises(FileFormatError):
            check_package(data[:length], "workbook")


def test_archives_with_very_many_parts_are_refused() -> None:
    target = BytesIO()
    with ZipFile(target, "w") as archive:
        for number in range(4_001):
            archive.writestr(str(number), b"")
    with pytest.raises(FileFormatError, match="has 4001 parts; at most 4000"):
        check_package(target.getvalue(), "document")


def test_library_errors_become_file_format_errors() -> None:
    with (
        pytest.raises(FileFormatError, match=r"no deck that can be read \(KeyError: 'rId7'\)"),
        parse_errors("deck"),
    ):
        raise KeyError("rId7")


def test_repacked_files_have_no_timestamp() -> None:
    again = repack(zip_workbook(), lambda name, content: content.upper() if name == SHEET else content)
    with ZipFile(BytesIO(again)) as archive:
        assert {part.date_time[0] for part in archive.infolist()} == {1980}
        assert archive.read(SHEET) == b"<WORKSHEET/>"
