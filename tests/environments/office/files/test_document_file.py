"""Text documents as .docx files."""

from io import BytesIO
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.environments.office.state.document import Document, Grid, Paragraph, ParagraphStyle
from upturn.errors import FileFormatError

docx = pytest.importorskip("docx", reason="the extra files is not installed")

from upturn.environments.office.files.document import document_bytes, read_document  # noqa: E402
from upturn.environments.office.files.picture import picture_bytes  # noqa: E402


def test_a_document_survives_a_round_trip_and_equal_documents_give_equal_bytes(document: Document) -> None:
    written = document_bytes(document)
    assert read_document(written) == (document, ())
    assert document_bytes(document) == written


texts = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"), max_size=20)
paragraphs = st.builds(Paragraph, texts, st.sampled_from(get_args(ParagraphStyle)), st.booleans(), st.booleans())
grids = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.tuples(*[texts] * width), min_size=1, max_size=3).map(lambda rows: Grid(tuple(rows)))
)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.one_of(paragraphs, grids), max_size=8))
def test_any_blocks_survive_a_round_trip(blocks: list[Paragraph | Grid]) -> None:
    assert read_document(document_bytes(Document(tuple(blocks)))).document.blocks == tuple(blocks)


def test_foreign_styles_become_the_nearest_and_merged_cells_are_repeated_in_their_columns() -> None:
    file = docx.Document()
    for style in ("Heading 3", "List Number", "Intense Quote", "Caption", "Body Text"):
        file.add_paragraph(style, style=style)
    mixed = file.add_paragraph("half ")
    mixed.add_run("bold").bold = True
    table = file.add_table(2, 2)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
    target = BytesIO()
    file.save(target)
    blocks = read_document(target.getvalue()).document.blocks
    styles = [block.style for block in blocks if isinstance(block, Paragraph)]
    assert styles == ["heading2", "bullet", "quote", "body", "body", "body"]
    assert blocks[-2] == Paragraph("half bold")
    assert blocks[-1] == Grid((("wide", "wide"), ("", "")))


@pytest.mark.parametrize(
    ("block", "reason"), [(Paragraph("a\x00"), "cannot hold the character"), (Grid(()), "a table without cells")]
)
def test_unsupported_content_is_refused(block: Paragraph | Grid, reason: str) -> None:
    with pytest.raises(FileFormatError, match=reason):
        document_bytes(Document((block,)))


def test_merged_cells_and_pictures_that_are_not_kept_are_counted() -> None:
    file = docx.Document()
    table = file.add_table(rows=2, cols=3)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "across"
    table.cell(0, 2).merge(table.cell(1, 2)).text = "down"
    file.add_picture(BytesIO(picture_bytes("the team", "PNG")))
    target = BytesIO()
    file.save(target)
    read = read_document(target.getvalue())
    assert read.document.blocks[0] == Grid((("across", "across", "down"), ("", "", "down")))
    assert read.notes == ("2 merged cells of tables were separated: each has the text", "1 pictures were left out")
