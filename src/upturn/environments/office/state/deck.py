"""Presentations: slides with a layout, text and shapes."""

from typing import Literal, get_args

from upturn.records import record

Layout = Literal["title", "title_content", "two_content", "section", "blank"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
Theme = Literal["plain", "slate", "forest", "sunrise"]
THEMES: tuple[Theme, ...] = get_args(Theme)
ShapeKind = Literal["text", "rectangle", "ellipse", "arrow", "image"]


@record
class Shape:
    """A shape on a slide, in addition to title and content."""

    kind: ShapeKind
    text: str = ""
    """Its text, or the description of an image."""
    image: str = ""
    """The file's id of an image."""


@record
class Slide:
    """One slide."""

    layout: Layout = "title_content"
    title: str = ""
    content: tuple[str, ...] = ()
    """Bullets."""
    shapes: tuple[Shape, ...] = ()


@record
class Deck:
    """A presentation."""

    slides: tuple[Slide, ...]
    theme: Theme = "plain"
