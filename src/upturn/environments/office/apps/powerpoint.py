"""Presentations: slides, their text, layout, shapes and images, and the theme."""

from dataclasses import replace

from pydantic import Field

from upturn.environments.office.apps.drive import file_of, open_content, save_content
from upturn.environments.office.apps.operation import App, Effect, Id, PageNumber, Parameters, format_page
from upturn.environments.office.apps.safety import sensitivity_costs
from upturn.environments.office.state import (
    Deck,
    File,
    Layout,
    OperationError,
    PlainText,
    Shape,
    ShapeKind,
    Slide,
    Theme,
    Workspace,
)

APP = App("powerpoint")
_MOST = 200
"""Limit on the slides of a presentation and the shapes of a slide."""


class ReadSlides(Parameters):
    """Shows the slides with their numbers, layouts and texts."""

    id: Id
    page: PageNumber = 1


class AddSlide(Parameters):
    """Adds a slide before the one with this number; left out = at the end. Bullets are lines."""

    id: Id
    title: str = ""
    content: str = Field("", description="bullets, one a line")
    layout: Layout = "title_content"
    at: int | None = Field(None, ge=1)


class SetText(Parameters):
    """Replaces a slide's title, its bullets, or both; what is left out stays."""

    id: Id
    slide: int = Field(ge=1)
    title: str | None = None
    content: str | None = Field(None, description="bullets, one a line")


class SetLayout(Parameters):
    """Gives a slide another layout."""

    id: Id
    slide: int = Field(ge=1)
    layout: Layout


class InsertShape(Parameters):
    """Puts a shape with a text on a slide."""

    id: Id
    slide: int = Field(ge=1)
    kind: ShapeKind
    text: str = ""


class AddImage(Parameters):
    """Puts a picture of the drive on a slide."""

    id: Id
    slide: int = Field(ge=1)
    image: Id = Field(description="id of a .png or .jpg file")


class ApplyTheme(Parameters):
    """Gives the presentation another look."""

    id: Id
    theme: Theme


class DeleteSlide(Parameters):
    """Takes a slide out; the version before is kept."""

    id: Id
    slide: int = Field(ge=1)


def _deck(workspace: Workspace, id_: str) -> tuple[File, Deck]:
    return open_content(workspace, id_, Deck, noun="presentation")


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _slide_text(slide: Slide) -> str:
    bullets = "".join(f"\n  - {bullet}" for bullet in slide.content)
    shapes = "".join(f"\n  [{shape.kind}] {shape.text}" for shape in slide.shapes)
    return f"({slide.layout}) {slide.title}{bullets}{shapes}"


@APP.operation(ReadSlides, is_reading=True)
def _read_slides(workspace: Workspace, request: ReadSlides) -> Effect:
    file, deck = _deck(workspace, request.id)
    lines = [f"{number} {_slide_text(slide)}" for number, slide in enumerate(deck.slides, start=1)]
    slides = format_page(lines, page=request.page, shown=8, empty="no slides")
    return Effect(workspace, f"theme {deck.theme}\n{slides}", sensitivity_costs(workspace, file.id, file.label))


@APP.operation(AddSlide)
def _add_slide(workspace: Workspace, request: AddSlide) -> Effect:
    file, deck = _deck(workspace, request.id)
    number = len(deck.slides) + 1 if request.at is None else request.at
    if number > len(deck.slides) + 1:
        raise OperationError("bad_value", f"{file.id} has {len(deck.slides)} slides, got at={request.at}")
    if len(deck.slides) >= _MOST:
        raise OperationError("bad_value", f"{file.id} is full: {_MOST} slides")
    slide = Slide(request.layout, request.title, _lines(request.content))
    slides = (*deck.slides[: number - 1], slide, *deck.slides[number - 1 :])
    return save_content(workspace, file, replace(deck, slides=slides), f"slide {number}")


def _slide(file: File, deck: Deck, number: int) -> Slide:
    if number > len(deck.slides):
        raise OperationError("not_found", f"{file.id} has {len(deck.slides)} slides, got {number}")
    return deck.slides[number - 1]


def _with_slide(deck: Deck, number: int, slide: Slide) -> Deck:
    return replace(deck, slides=(*deck.slides[: number - 1], slide, *deck.slides[number:]))


@APP.operation(SetText)
def _set_text(workspace: Workspace, request: SetText) -> Effect:
    file, deck = _deck(workspace, request.id)
    slide = _slide(file, deck, request.slide)
    if request.title is None and request.content is None:
        raise OperationError("missing_parameter", "give title, content or both")
    done = replace(
        slide,
        title=slide.title if request.title is None else request.title,
        content=slide.content if request.content is None else _lines(request.content),
    )
    return save_content(workspace, file, _with_slide(deck, request.slide, done), "set")


@APP.operation(SetLayout)
def _set_layout(workspace: Workspace, request: SetLayout) -> Effect:
    file, deck = _deck(workspace, request.id)
    done = replace(_slide(file, deck, request.slide), layout=request.layout)
    return save_content(workspace, file, _with_slide(deck, request.slide, done), request.layout)


def _with_shape(workspace: Workspace, id_: str, number: int, shape: Shape) -> Effect:
    file, deck = _deck(workspace, id_)
    slide = _slide(file, deck, number)
    if len(slide.shapes) >= _MOST:
        raise OperationError("bad_value", f"slide {number} is full: {_MOST} shapes")
    done = replace(slide, shapes=(*slide.shapes, shape))
    return save_content(workspace, file, _with_slide(deck, number, done), f"shape {len(done.shapes)}")


@APP.operation(InsertShape)
def _insert_shape(workspace: Workspace, request: InsertShape) -> Effect:
    if request.kind == "image":
        raise OperationError("bad_value", "powerpoint.add_image puts pictures on slides")
    return _with_shape(workspace, request.id, request.slide, Shape(request.kind, request.text))


@APP.operation(AddImage)
def _add_image(workspace: Workspace, request: AddImage) -> Effect:
    """Reads the picture's description, with its costs."""
    image = file_of(workspace, request.image)
    if not isinstance(image.content, PlainText) or not image.name.lower().endswith((".png", ".jpg")):
        raise OperationError("bad_value", f"{image.name} is no picture")
    effect = _with_shape(workspace, request.id, request.slide, Shape("image", image.content.text, image.id))
    return effect._replace(costs={**effect.costs, **sensitivity_costs(workspace, image.id, image.label)})


@APP.operation(ApplyTheme)
def _apply_theme(workspace: Workspace, request: ApplyTheme) -> Effect:
    file, deck = _deck(workspace, request.id)
    return save_content(workspace, file, replace(deck, theme=request.theme), request.theme)


@APP.operation(DeleteSlide)
def _delete_slide(workspace: Workspace, request: DeleteSlide) -> Effect:
    file, deck = _deck(workspace, request.id)
    _slide(file, deck, request.slide)
    slides = (*deck.slides[: request.slide - 1], *deck.slides[request.slide :])
    return save_content(workspace, file, replace(deck, slides=slides), f"deleted {request.slide}")
