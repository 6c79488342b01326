"""A book, a document and a deck with everything that the file formats can store."""

import pytest

from upturn.environments.office.state.deck import Deck, Shape, Slide
from upturn.environments.office.state.document import Document, Grid, Paragraph
from upturn.environments.office.state.workbook import Book, CellFormat, Chart, Pivot, Sheet

BOOK = Book(
    {
        "Ledger": Sheet(
            {
                **{
                    "A1": "item",
                    "B1": "amount",
                    "C1": "with tax",
                    "A2": "rent",
                    "B2": "40",
                    "C2": "=ROUND(B2*1.19,2)",
                },
                **{
                    "A3": "travel",
                    "B3": "12.5",
                    "C3": "=ROUND(B3*1.19,2)",
                    "A4": "2026-03-02",
                    "C4": "=SUM(C2:C3)",
                },
                **{"A5": "'007", "B5": "TRUE", "C5": "#N/A", "A6": "'=no formula", "B6": "'TRUE", "C6": "=B2/0"},
                **{"A7": "two\nlines", "B7": '=IF(B2>1,"yes","no")', "C7": '=VLOOKUP("rent",$A$2:B3,2,FALSE)'},
                **{"A8": '=CONCAT(A2,"CONCAT(",B2)', "B8": "='Q3 plan'!A1", "C8": "  blanks  ", "A9": "_x0041_"},
            },
            {
                "A1": CellFormat(is_bold=True, fill="BFBFBF"),
                "B2": CellFormat(number="#,##0.00"),
                "A3": CellFormat(is_italic=True),
                "A4": CellFormat(number="yyyy-mm-dd"),
                "E9": CellFormat(fill="FFFF00"),
            },
            charts=(Chart("bar", "A1:B3", "Costs"), Chart("scatter", "B1:C3"), Chart("line", "B1:C3", "Lines")),
            frozen_rows=1,
        ),
        "Q3 plan": Sheet(
            {
                "A1": "item",
                "B1": "amount",
                "A2": "rent",
                "B2": "40",
                "A3": "food",
                "B3": "7",
                "D1": "item",
                "E1": "sum",
            },
            charts=(Chart("pie", "A1:B3", "Shares"),),
            pivots=(
                Pivot("A1:B3", 'the "item"', "amount", "sum", "D1"),
                Pivot("Ledger!A1:B3", "item", "x", "max", "A1"),
            ),
            filters={"A": "rent"},
        ),
    }
)
DOCUMENT = Document(
    (
        Paragraph("Plan of the year", "title"),
        Paragraph("Where we are", "heading1"),
        Paragraph("one line\nand\tanother"),
        Paragraph("It will be fine.", "quote", is_italic=True),
        Paragraph("first", "bullet"),
        Paragraph("second", "bullet", is_bold=True, is_italic=True),
        Grid((("what", "state"), ("rent", "paid\nlate"), ("food", ""))),
        Grid((("alone",),)),
        Paragraph(""),
        Paragraph("Next steps", "heading2"),
    )
)
DECK = Deck(
    (
        Slide("title", "Alder", ("a project of ours",)),
        Slide(
            "title_content",
            "Progress",
            ("we are on time", "two\nlines"),
            (
                Shape("text", "a note"),
                Shape("rectangle", "one"),
                Shape("ellipse"),
                Shape("arrow", "go\non"),
                Shape("image", "the office from outside", "f12"),
            ),
        ),
        Slide("two_content", "Both\nsides", ("a", "b", "c")),
        Slide("section", "Part two", ("what comes",)),
        Slide("blank", "hidden title", ("some", "bullets"), (Shape("image", "the team", "f1"),)),
        Slide("blank"),
    ),
    "sunrise",
)


@pytest.fixture
def book() -> Book:
    """Two sheets with every kind of cell, format, chart, pivot table and filter."""
    return BOOK


@pytest.fixture
def document() -> Document:
    """A document with every style, adjacent tables and an empty paragraph."""
    return DOCUMENT


@pytest.fixture
def deck() -> Deck:
    """A deck with every layout and every kind of shape."""
    return DECK
