"""Text documents: reading, inserting, formatting, replacing, tables."""

from dataclasses import replace

from pydantic import Field

from upturn.environments.office.apps.drive import open_content, save_content
from upturn.environments.office.apps.operation import App, Effect, Id, PageNumber, Parameters, Text, format_page
from upturn.environments.office.apps.safety import check_right, sensitivity_costs
from upturn.environments.office.state import (
    Block,
    Document,
    File,
    Grid,
    OperationError,
    Paragraph,
    ParagraphStyle,
    Workspace,
)

APP = App("word")
_MOST = 2_000
"""Limit on the blocks of a document."""
_LONGEST = 10_000
"""Limit on the characters of a paragraph or cell after a replacement."""
_SHOWN = 300
"""Characters shown of a paragraph."""


class ReadParagraphs(Parameters):
    """Shows a document's paragraphs with their numbers and styles; tables count as one paragraph."""

    id: Id
    text: str = Field("", description="words: only paragraphs and, below their header, rows of tables with them")
    page: PageNumber = 1


class InsertText(Parameters):
    """Inserts a paragraph before the one with this number; left out = at the end."""

    id: Id
    text: Text
    at: int | None = Field(None, ge=1)
    style: ParagraphStyle = "body"


class FormatSection(Parameters):
    """Gives paragraphs a style, or makes them bold or italic; what is left out stays."""

    id: Id
    first: int = Field(ge=1)
    last: int | None = Field(None, ge=1, description="left out = the first one only")
    style: ParagraphStyle | None = None
    is_bold: bool | None = None
    is_italic: bool | None = None


class FindReplace(Parameters):
    """Replaces a text wherever it stands in the document, tables included; upper and lower case count."""

    id: Id
    find: Text
    replace: str


class InsertTable(Parameters):
    """Inserts a table before the paragraph with this number; rows are lines, cells are separated by |."""

    id: Id
    rows: Text
    at: int | None = Field(None, ge=1, description="left out = at the end")


class DeleteParagraphs(Parameters):
    """Takes paragraphs out; the version before is kept."""

    id: Id
    first: int = Field(ge=1)
    last: int | None = Field(None, ge=1, description="left out = the first one only")


def _document(workspace: Workspace, id_: str) -> tuple[File, Document]:
    return open_content(workspace, id_, Document, noun="document")


def _block_text(block: Block) -> str:
    if isinstance(block, Grid):
        return "table: " + " / ".join(" | ".join(row) for row in block.rows)
    signs = f"{' bold' if block.is_bold else ''}{' italic' if block.is_italic else ''}"
    text = block.text if len(block.text) <= _SHOWN else f"{block.text[:_SHOWN]}… {len(block.text)} characters"
    return f"({block.style}{signs}) {text}"


def _matching_part(block: Block, words: str) -> Block | None:
    """The block if it contains the lower-case words, of a table its header and matching rows; None = no match."""
    if not words:
        return block
    if isinstance(block, Paragraph):
        return block if words in block.text.lower() else None
    has_words = [any(words in cell.lower() for cell in row) for row in block.rows]
    rows = [row for index, row in enumerate(block.rows) if not index or has_words[index]]
    return Grid(tuple(rows)) if any(has_words) else None


@APP.operation(ReadParagraphs, is_reading=True)
def _read_paragraphs(workspace: Workspace, request: ReadParagraphs) -> Effect:
    file, document = _document(workspace, request.id)
    matching = [_matching_part(block, request.text.lower()) for block in document.blocks]
    lines = [
        f"{number} {_block_text(block)}" for number, block in enumerate(matching, start=1) if block is not None
    ]
    shown = format_page(
        lines, page=request.page, shown=20, empty="no such text" if request.text else "an empty document"
    )
    return Effect(workspace, shown, sensitivity_costs(workspace, file.id, file.label))


def _insert_block(workspace: Workspace, id_: str, at: int | None, block: Block) -> Effect:
    file, document = _document(workspace, id_)
    number = len(document.blocks) + 1 if at is None else at
    if number > len(document.blocks) + 1:
        raise OperationError("bad_value", f"{file.id} has {len(document.blocks)} paragraphs, got at={at}")
    if len(document.blocks) >= _MOST:
        raise OperationError("bad_value", f"{file.id} is full: {_MOST} paragraphs")
    blocks = (*document.blocks[: number - 1], block, *document.blocks[number - 1 :])
    return save_content(workspace, file, Document(blocks), f"paragraph {number}")


@APP.operation(InsertText)
def _insert_text(workspace: Workspace, request: InsertText) -> Effect:
    return _insert_block(workspace, request.id, request.at, Paragraph(request.text, request.style))


@APP.operation(InsertTable)
def _insert_table(workspace: Workspace, request: InsertTable) -> Effect:
    rows = tuple(
        tuple(cell.strip() for cell in line.split("|")) for line in request.rows.splitlines() if line.strip()
    )
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        raise OperationError("bad_value", f"all rows have as many cells, got rows of {sorted(widths)}")
    return _insert_block(workspace, request.id, request.at, Grid(rows))


def _span(document: Document, first: int, last: int | None) -> range:
    """The indices of paragraphs ``first`` to ``last``; raises OperationError if they do not exist."""
    until = first if last is None else last
    if not first <= until <= len(document.blocks):
        raise OperationError(
            "bad_value", f"there are paragraphs 1 to {len(document.blocks)}, got {first} to {until}"
        )
    return range(first - 1, until)


@APP.operation(FormatSection)
def _format_section(workspace: Workspace, request: FormatSection) -> Effect:
    file, document = _document(workspace, request.id)
    wanted = {"style": request.style, "is_bold": request.is_bold, "is_italic": request.is_italic}
    changes = {name: value for name, value in wanted.items() if value is not None}
    if not changes:
        raise OperationError("missing_parameter", "give style, is_bold or is_italic")
    span = _span(document, request.first, request.last)
    blocks = tuple(
        replace(block, **changes) if at in span and isinstance(block, Paragraph) else block  # type: ignore[arg-type]
        for at, block in enumerate(document.blocks)
    )
    return save_content(workspace, file, Document(blocks), f"formatted {len(span)}")


@APP.operation(FindReplace)
def _find_replace(workspace: Workspace, request: FindReplace) -> Effect:
    file, document = _document(workspace, request.id)
    check_right(workspace, file, "edit")  # before the result reveals the content
    texts = [
        text
        for block in document.blocks
        for text in ([block.text] if isinstance(block, Paragraph) else [cell for row in block.rows for cell in row])
    ]
    count = sum(text.count(request.find) for text in texts)
    if not count:
        raise OperationError("not_found", f"{file.id} does not contain {request.find[:60]!r}")
    grown = len(request.replace) - len(request.find)
    longest = max(len(text) + grown * text.count(request.find) for text in texts)
    if grown > 0 and longest > _LONGEST:
        raise OperationError(
            "bad_value",
            f"{file.id} would get a text of {longest} characters; at most {_LONGEST}, take a shorter one",
        )
    blocks = tuple(_replace_text(block, request.find, request.replace) for block in document.blocks)
    return save_content(workspace, file, Document(blocks), f"replaced {count}")


def _replace_text(block: Block, old: str, new: str) -> Block:
    if isinstance(block, Paragraph):
        return replace(block, text=block.text.replace(old, new))
    return Grid(tuple(tuple(cell.replace(old, new) for cell in row) for row in block.rows))


@APP.operation(DeleteParagraphs)
def _delete_paragraphs(workspace: Workspace, request: DeleteParagraphs) -> Effect:
    file, document = _document(workspace, request.id)
    span = _span(document, request.first, request.last)
    blocks = tuple(block for at, block in enumerate(document.blocks) if at not in span)
    return save_content(workspace, file, Document(blocks), f"deleted {len(span)}")
