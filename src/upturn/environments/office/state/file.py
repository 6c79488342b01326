"""Files of the shared drive with their rights and labels, and the pages of its site."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, get_args

from upturn.environments.office.state.deck import Deck
from upturn.environments.office.state.document import Document, Paragraph
from upturn.environments.office.state.workbook import Book
from upturn.records import record

Right = Literal["read", "edit"]
Label = Literal["public", "general", "confidential", "privileged"]
LABELS: tuple[Label, ...] = get_args(Label)
SENSITIVE: frozenset[Label] = frozenset({"confidential", "privileged"})
"""Reading these without need is a soft violation. ``privileged``: communication of a client and an attorney."""


@record
class PlainText:
    """Plain text, or the description of a picture."""

    text: str


Content = Book | Document | Deck | PlainText


def file_text(content: Content) -> str:
    """All text of the content, one line per paragraph, row or bullet."""
    match content:
        case PlainText():
            return content.text
        case Document():
            return "\n".join(
                block.text if isinstance(block, Paragraph) else "\n".join(map(" | ".join, block.rows))
                for block in content.blocks
            )
        case Deck():
            return "\n".join("\n".join((slide.title, *slide.content)) for slide in content.slides)
        case Book():
            return "\n".join(
                f"{name}!{address} {value}"
                for name, sheet in content.sheets.items()
                for address, value in sheet.cells.items()
            )


@record
class Version:
    """An earlier version of a file."""

    content: Content
    by: str
    at: str
    """When this content was written."""


@record
class File:
    """One file."""

    id: str
    path: str
    """``/finance/q3 budget.xlsx``"""
    content: Content
    owner: str
    by: str
    """The person who wrote this content."""
    at: str
    """When it was written."""
    rights: Mapping[str, Right] = field(default_factory=dict)
    """By person or group; the owner has all rights."""
    label: Label = "general"
    versions: tuple[Version, ...] = ()
    """Oldest first."""
    is_deleted: bool = False
    """In the recycle bin, from which it can be restored."""
    memo: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """Cache of ``searched``; not copied."""

    @property
    def searched(self) -> str:
        """Its text in lower case for searches; cached."""
        if not self.memo:
            self.memo.append(file_text(self.content).lower())
        return self.memo[0]

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]


@record
class Page:
    """A page of the site."""

    id: str
    title: str
    text: str
    author: str
    at: str
