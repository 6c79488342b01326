"""Text documents as .docx files: titles, headings, quotes, bullets, bold and italic paragraphs, tables.

Foreign files: deeper headings become second-level ones, numbered lists become bullets, other styles their base
style; a paragraph is bold or italic if all of it is. A cell that spans columns is repeated in each. Not read:
headers, footers, notes, comments, pictures, text boxes.
"""

import re
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any, NamedTuple

from upturn.environments.office.files.package import (
    check_package,
    check_text,
    count_matches,
    parse_errors,
    repack,
    require_extra,
)
from upturn.environments.office.state import Block, Document, Grid, Paragraph, ParagraphStyle
from upturn.errors import FileFormatError

_STYLES: Mapping[ParagraphStyle, str] = {
    "title": "Title",
    "heading1": "Heading 1",
    "heading2": "Heading 2",
    "body": "Normal",
    "quote": "Quote",
    "bullet": "List Bullet",
}
_READ: Mapping[str, ParagraphStyle] = {
    **{name.lower(): style for style, name in _STYLES.items()},
    **{f"heading {level}": "heading2" for level in range(3, 10)},
    "subtitle": "heading2",
    "intense quote": "quote",
    "quotations": "quote",
    "block text": "quote",
    "list": "bullet",
    "list paragraph": "bullet",
    "list number": "bullet",
    **{f"list {kind} {level}": "bullet" for kind in ("bullet", "number") for level in range(2, 6)},
}
"""By style name in lower case, as programs write it."""
_GAP = "Table Gap"
"""The style of the empty paragraphs that separate tables from the next block; they are not read back."""
_TABLE = "Light Grid Accent 1"
_DIFFERENCES: Mapping[str, re.Pattern[bytes]] = {
    "merged cells of tables were separated: each has the text": re.compile(
        rb"<w:gridSpan\s[^>]*?w:val=[\"'](?!1[\"'])|<w:vMerge\s[^>]*?w:val=[\"']restart[\"']"
    ),
    "pictures were left out": re.compile(rb"<(?:\w+:)?pic[\s>]"),
}
"""Patterns of what is not read, by its explanation."""


def document_bytes(document: Document) -> bytes:
    """The document as a .docx file, equal for equal documents; raises FileFormatError for content that it cannot
    hold."""
    with require_extra(".docx files"):
        import docx
    file = docx.Document()
    _prepare(file)
    for block in document.blocks:
        if isinstance(block, Paragraph):
            check_text(block.text)
            _put_paragraph(file, block)
        else:
            check_text(*(text for row in block.rows for text in row))
            _put_table(file, block)
    target = BytesIO()
    file.save(target)
    return repack(target.getvalue())


def _prepare(file: Any) -> None:
    """Sets up A4 pages and the style of gaps in the library's template."""
    from docx.enum.style import WD_STYLE_TYPE
    from docx.shared import Mm, Pt

    page = file.sections[0]
    page.page_width, page.page_height = Mm(210), Mm(297)
    page.left_margin = page.right_margin = page.top_margin = page.bottom_margin = Mm(25)
    file.styles["Normal"].font.name = "Arial"
    gap = file.styles.add_style(_GAP, WD_STYLE_TYPE.PARAGRAPH)
    gap.base_style = file.styles["Normal"]
    gap.font.size, gap.paragraph_format.space_after = Pt(6), Pt(0)


def _put_paragraph(file: Any, block: Paragraph) -> None:
    run = file.add_paragraph(style=_STYLES[block.style]).add_run(block.text)
    run.bold, run.italic = block.is_bold or None, block.is_italic or None


def _put_table(file: Any, grid: Grid) -> None:
    if not grid.rows or not grid.rows[0]:
        raise FileFormatError("a table without cells cannot be written; take it out")
    table = file.add_table(rows=0, cols=len(grid.rows[0]), style=_TABLE)
    for row in grid.rows:
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = text
    file.add_paragraph(style=_GAP)


class ReadDocument(NamedTuple):
    """The content read from a file."""

    document: Document
    notes: tuple[str, ...]
    """Descriptions of differences from the file."""


def read_document(data: bytes) -> ReadDocument:
    """The document in a .docx file; raises FileFormatError for other, damaged and too large files."""
    with require_extra(".docx files"):
        import docx
    check_package(data, "document")
    with parse_errors("document"):
        document = Document(tuple(_blocks(docx.Document(BytesIO(data)))))
        counts = {words: count_matches(data, pattern) for words, pattern in _DIFFERENCES.items()}
        return ReadDocument(document, tuple(f"{count} {words}" for words, count in counts.items() if count))


def _blocks(file: Any) -> Iterator[Block]:
    for block in file.iter_inner_content():
        if hasattr(block, "rows"):
            if rows := [tuple(cell.text for cell in row.cells) for row in block.rows]:
                width = max(len(row) for row in rows)
                yield Grid(tuple((*row, *[""] * (width - len(row))) for row in rows))
        elif block.text or block.style is None or block.style.name != _GAP:
            yield _paragraph(block)


def _paragraph(source: Any) -> Paragraph:
    runs = [run for run in source.runs if run.text] or source.runs
    return Paragraph(
        source.text,
        _style(source),
        is_bold=bool(runs) and all(run.bold for run in runs),
        is_italic=bool(runs) and all(run.italic for run in runs),
    )


def _style(source: Any) -> ParagraphStyle:
    style, depth = source.style, 0
    while style is not None and depth < 20:  # damaged files may have cyclic styles
        name = (style.name or "").lower()
        if name in _READ:
            named = _READ[name]
            break
        style, depth = style.base_style, depth + 1
    else:
        named = "body"
    properties = source._p.pPr
    is_listed = properties is not None and properties.numPr is not None
    return "bullet" if named == "body" and is_listed else named
