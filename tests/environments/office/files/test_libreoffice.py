"""Import of files saved by LibreOffice (``tests/data/office_files``): everything that it stored is read."""

from dataclasses import replace
from pathlib import Path

import pytest

from upturn.environments.office.state.deck import Deck
from upturn.environments.office.state.document import Document
from upturn.environments.office.state.workbook import Book

for package in ("openpyxl", "docx", "pptx"):
    pytest.importorskip(package, reason="the extra files is not installed")

from upturn.environments.office.files.content import read_content  # noqa: E402

FILES = Path(__file__).parents[3] / "data" / "office_files"


@pytest.mark.parametrize("name", ["book.xlsx", "book_from_ods.xlsx"])
def test_a_written_workbook_has_all_content_but_frozen_rows_lost_without_a_window(name: str, book: Book) -> None:
    read = read_content(name, (FILES / name).read_bytes())
    ledger = replace(book.sheets["Ledger"], frozen_rows=0)
    assert read == (Book({**book.sheets, "Ledger": ledger}), ())


def test_a_written_document_has_all_content(document: Document) -> None:
    assert read_content("plan.docx", (FILES / "plan.docx").read_bytes()).content == document


def test_a_written_presentation_has_all_content_but_section_layouts_unknown_to_libreoffice(deck: Deck) -> None:
    slides = tuple(
        replace(slide, layout="title_content") if slide.layout == "section" else slide for slide in deck.slides
    )
    assert read_content("talk.pptx", (FILES / "talk.pptx").read_bytes()).content == Deck(slides, deck.theme)
