"""Without the libraries errors name the extra, and formats that need none of them work."""

import sys

import pytest

from upturn.environments.office.files.calendar_file import event_bytes
from upturn.environments.office.files.content import content_bytes, read_content
from upturn.environments.office.files.directory import Directory
from upturn.environments.office.state.deck import Deck
from upturn.environments.office.state.document import Document
from upturn.environments.office.state.event import Event
from upturn.environments.office.state.file import Content, PlainText
from upturn.environments.office.state.workbook import Book, Sheet
from upturn.errors import FileFormatError

INSTALL = r"which is not installed: pip install 'upturn\[files\]'"


@pytest.mark.parametrize(
    ("package", "name", "content"),
    [
        ("xlsxwriter", "a.xlsx", Book({"s": Sheet({})})),
        ("openpyxl", "a.xlsx", None),
        ("docx", "a.docx", Document(())),
        ("docx", "a.docx", None),
        ("pptx", "a.pptx", Deck(())),
        ("pptx", "a.pptx", None),
        ("PIL", "a.png", PlainText("x")),
        ("PIL", "a.jpg", None),
    ],
)
def test_the_extra_to_install_is_named(
    package: str, name: str, content: Content | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(FileFormatError, match=INSTALL):
        read_content(name, b"PK\x03\x04") if content is None else content_bytes(name, content)


def test_calendars_name_it_too_and_texts_need_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "icalendar", None)
    with pytest.raises(FileFormatError, match=INSTALL):
        event_bytes(Event("e1", "x", "2026-03-02 09:00", "2026-03-02 10:00", "ann.lee"), Directory())
    text = PlainText("a\r\nb ☃")
    assert read_content("a.md", content_bytes("a.txt", text)).content == text


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a.xlsm", "it has macros"),
        ("a.doc", "binary format of before 2007"),
        ("a.odt", "it is of another program"),
        ("a.pdf", "of a kind that this office has not; files end in .xlsx, .docx"),
        ("a", "of a kind"),
    ],
)
def test_files_of_other_formats_are_refused_by_format(name: str, reason: str) -> None:
    with pytest.raises(FileFormatError, match=reason):
        read_content(name, b"")


def test_texts_in_other_encodings_are_refused() -> None:
    with pytest.raises(FileFormatError, match="no text in UTF-8"):
        read_content("a.txt", b"caf\xe9")
