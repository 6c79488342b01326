"""Text documents: paragraphs with a style, and tables between them."""

from typing import Literal

from upturn.records import record

ParagraphStyle = Literal["title", "heading1", "heading2", "body", "quote", "bullet"]


@record
class Paragraph:
    """One paragraph."""

    text: str
    style: ParagraphStyle = "body"
    is_bold: bool = False
    is_italic: bool = False


@record
class Grid:
    """A table in a document; all rows have the same length, the first one is the header."""

    rows: tuple[tuple[str, ...], ...]


Block = Paragraph | Grid


@record
class Document:
    """A text document."""

    blocks: tuple[Block, ...]
