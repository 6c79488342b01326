"""Files of the shared drive, with whoever may see them, and the pages of its site."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from upturn.environments.workspace.book import Book
from upturn.environments.workspace.deck import Deck
from upturn.environments.workspace.document import Document
from upturn.environments.workspace.label import Label
from upturn.records import record

Right = Literal["read", "edit"]


@record
class PlainText:
    """What has no app of its own; of a picture what it shows."""

    text: str


Content = Book | Document | Deck | PlainText


@record
class Version:
    """What a file was before somebody changed it."""

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
    """Who wrote this content."""
    at: str
    """When."""
    rights: Mapping[str, Right] = field(default_factory=dict)
    """By person or group, beside the owner, who has all of them."""
    label: Label = "general"
    versions: tuple[Version, ...] = ()
    """Oldest first."""
    is_deleted: bool = False
    """In the recycle bin, from where it can be brought back."""

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
