"""Presentations as .pptx files: layouts, titles, bullets, shapes with texts, pictures, themes.

The left half of a two-content slide comes first. Titles and bullets without a placeholder in the layout are in text
boxes of that name. Foreign files: a picture becomes its description, without a file of the drive; other themes
become the plain one, other layouts the nearest, other shapes rectangles. Not read: notes, tables, charts, groups,
videos, transitions.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, NamedTuple

from upturn.environments.office.files.package import check_package, check_text, parse_errors, repack, require_extra
from upturn.environments.office.files.picture import picture_bytes
from upturn.environments.office.state import THEMES, Deck, Layout, Shape, ShapeKind, Slide, Theme

_LAYOUTS: Mapping[Layout, str] = {
    "title": "Title Slide",
    "title_content": "Title and Content",
    "two_content": "Two Content",
    "section": "Section Header",
    "blank": "Blank",
}
_NAMES: Mapping[str, Layout] = {
    **{name: layout for layout, name in _LAYOUTS.items()},
    "Title, 2 Content": "two_content",
    "Blank Slide": "blank",
}
"""Layouts by their names in known programs."""
_TYPES: Mapping[str, Layout] = {
    "title": "title",
    "ctrTitle": "title",
    "twoObj": "two_content",
    "twoColTx": "two_content",
    "txAndObj": "two_content",
    "secHead": "section",
    "blank": "blank",
}
"""Layouts by the type attribute, for other names; unknown types have a title and content."""
_TITLE, _CONTENT = "Title", "Content"
"""Names of text boxes for content without a placeholder."""
_IMAGE = "image "
"""Prefix of the file's id in the names of pictures."""
_WIDTH, _HEIGHT = 12_192_000, 6_858_000
"""16 : 9, in EMU (914,400 per inch)."""
_POINT = 12_700
_MARGIN, _GAP = 600_000, 200_000
_SECTION_RISE = 1_500_000
"""Raises titles of sections above shapes."""
_BAND_TOP = 4_700_000
"""Shapes stand below it."""


class _Palette(NamedTuple):
    """Six hex digits each."""

    text: str
    paper: str
    accent: str


_PALETTES: Mapping[Theme, _Palette] = {
    "slate": _Palette("2B3645", "EEF1F5", "4A6A8A"),
    "forest": _Palette("1F3D2B", "EFF6EF", "3F7D58"),
    "sunrise": _Palette("5A2A1B", "FFF4E6", "D9703A"),
}
_TITLES = re.compile(rb"<p:titleStyle>.*?</p:titleStyle>", re.DOTALL)
_THEME_NAME = re.compile(rb'(<a:theme [^>]*?name=")([^"]*)"')
_PAPER = re.compile(rb'<a:lt1>\s*<a:s(?:rgbClr val|ysClr [^>]*lastClr)="([0-9A-Fa-f]{6})"')


def deck_bytes(deck: Deck) -> bytes:
    """The deck as a .pptx file, equal for equal decks; raises FileFormatError for content that it cannot hold."""
    with require_extra(".pptx files"):
        from pptx import Presentation
    file = Presentation()
    _widen(file)
    layouts = {layout.name: layout for layout in file.slide_layouts}
    for slide in deck.slides:
        _put_slide(file.slides.add_slide(layouts[_LAYOUTS[slide.layout]]), slide)
    target = BytesIO()
    file.save(target)
    return repack(target.getvalue(), lambda name, content: _apply_theme(name, content, deck.theme))


def _widen(file: Any) -> None:
    """Widens the library's template, which is 4 : 3."""
    wider = _WIDTH / file.slide_width
    file.slide_width, file.slide_height = _WIDTH, _HEIGHT
    for page in (file.slide_master, *file.slide_layouts):
        for shape in page.placeholders:
            if shape._element.spPr.xfrm is not None:
                shape.left, shape.width = round(shape.left * wider), round(shape.width * wider)
                if page.name == _LAYOUTS["section"] and shape.placeholder_format.idx <= 1:
                    shape.top -= _SECTION_RISE


def _apply_theme(name: str, content: bytes, theme: Theme) -> bytes:
    if name.startswith("ppt/slideMasters/") and theme != "plain":
        return _TITLES.sub(lambda match: match[0].replace(b'"tx1"', b'"accent1"'), content, count=1)
    if not name.startswith("ppt/theme/"):
        return content
    content = _THEME_NAME.sub(rb"\g<1>%s" % theme.encode() + b'"', content, count=1)
    if theme == "plain":
        return content
    for slot, colour in zip(("dk1", "lt1", "accent1"), _PALETTES[theme], strict=True):
        tag = slot.encode()
        content = re.sub(
            rb"(<a:%s>).*?(</a:%s>)" % (tag, tag), rb'\1<a:srgbClr val="%s"/>\2' % colour.encode(), content, count=1
        )
    return content


def _put_slide(target: Any, slide: Slide) -> None:
    check_text(slide.title, *slide.content, *(drawn.text for drawn in slide.shapes))
    title = target.shapes.title
    if title is not None:
        title.text_frame.paragraphs[0].text = slide.title
    elif slide.title:
        box = _box(target, _TITLE, top=300_000, height=1_000_000)
        box.text_frame.paragraphs[0].text = slide.title
        box.text_frame.paragraphs[0].font.size = 32 * _POINT
    halves = [placeholder for placeholder in target.placeholders if placeholder.placeholder_format.idx in (1, 2)]
    if not halves and slide.content:
        halves = [_box(target, _CONTENT, top=1_500_000, height=3_000_000)]
    first = -(-len(slide.content) // 2) if len(halves) == 2 else len(slide.content)
    for half, bullets in zip(halves, (slide.content[:first], slide.content[first:]), strict=False):
        _put_bullets(half, bullets)
        if slide.shapes and half.top + half.height > _BAND_TOP and slide.layout != "section":
            left, top, width = half.left, half.top, half.width  # all four must be set together
            half.left, half.top, half.width, half.height = left, top, width, _BAND_TOP - top - _GAP
    for shape, area in zip(slide.shapes, _shape_areas(len(slide.shapes)), strict=True):
        _put_shape(target, shape, area)


def _box(target: Any, name: str, *, top: int, height: int) -> Any:
    box = target.shapes.add_textbox(_MARGIN, top, _WIDTH - 2 * _MARGIN, height)
    box.name, box.text_frame.word_wrap = name, True
    return box


def _put_bullets(holder: Any, bullets: Sequence[str]) -> None:
    frame = holder.text_frame
    for number, bullet in enumerate(bullets):
        paragraph = frame.add_paragraph() if number else frame.paragraphs[0]
        paragraph.text = bullet
        if not holder.is_placeholder:
            paragraph.font.size = 24 * _POINT


def _shape_areas(count: int) -> Iterator[tuple[int, int, int, int]]:
    """Left, top, width and height of ``count`` shapes, in rows below the content."""
    columns = 4 if count <= 4 else max(4, -(-count // 2)) if count <= 16 else 16
    rows = max(1, -(-count // columns))
    width = (_WIDTH - 2 * _MARGIN - (columns - 1) * _GAP) // columns
    height = (_HEIGHT - _BAND_TOP - _GAP) // rows - (_GAP if rows < 4 else 0)
    for number in range(count):
        row, column = divmod(number, columns)
        yield _MARGIN + column * (width + _GAP), _BAND_TOP + row * (height + _GAP * (rows < 4)), width, height


def _put_shape(target: Any, shape: Shape, area: tuple[int, int, int, int]) -> None:
    from pptx.enum.shapes import MSO_SHAPE
    from pptx.enum.text import PP_ALIGN

    if shape.kind == "image":
        _put_picture(target, shape, area)
        return
    if shape.kind == "text":
        placed = target.shapes.add_textbox(*area)
        placed.text_frame.word_wrap = True
    else:
        forms = {"rectangle": MSO_SHAPE.RECTANGLE, "ellipse": MSO_SHAPE.OVAL, "arrow": MSO_SHAPE.RIGHT_ARROW}
        placed = target.shapes.add_shape(forms[shape.kind], *area)
    placed.text_frame.text = shape.text
    for paragraph in placed.text_frame.paragraphs:
        paragraph.alignment = PP_ALIGN.LEFT if shape.kind == "text" else PP_ALIGN.CENTER
    placed.name = f"{shape.kind} {placed.shape_id}"


def _put_picture(target: Any, shape: Shape, area: tuple[int, int, int, int]) -> None:
    left, top, width, height = area
    picture = target.shapes.add_picture(BytesIO(picture_bytes(shape.text, "PNG")), left, top, height=height)
    if picture.width > width:
        picture.height, picture.width = picture.height * width // picture.width, width
    picture.name = f"{_IMAGE}{shape.image}"
    picture._element.nvPicPr.cNvPr.set("descr", shape.text)


class ReadDeck(NamedTuple):
    """The content read from a file."""

    deck: Deck
    notes: tuple[str, ...]
    """Descriptions of differences from the file."""


def read_deck(data: bytes) -> ReadDeck:
    """The deck in a .pptx file; raises FileFormatError for other, damaged and too large files."""
    with require_extra(".pptx files"):
        from pptx import Presentation
    check_package(data, "presentation")
    with parse_errors("presentation"):
        file = Presentation(BytesIO(data))
        slides = tuple(_slide(slide) for slide in file.slides)
        foreign = sum(shape.kind == "image" and not shape.image for slide in slides for shape in slide.shapes)
        notes = (f"{foreign} pictures became their descriptions",) if foreign else ()
        return ReadDeck(Deck(slides, _theme(file)), notes)


def _theme(file: Any) -> Theme:
    relations = file.slide_master.part.rels.values()
    content = next(
        (relation.target_part.blob for relation in relations if relation.reltype.endswith("/theme")), b""
    )
    named, paper = _THEME_NAME.search(content), _PAPER.search(content)
    name = named[2].decode(errors="replace") if named else ""
    for theme in THEMES:
        if name == theme or (paper and theme in _PALETTES and _PALETTES[theme].paper.encode() == paper[1].upper()):
            return theme
    return "plain"


def _slide(source: Any) -> Slide:
    title = ""
    bullets: list[str] = []
    shapes: list[Shape] = []
    for shape in source.shapes:
        kind = _role(shape)
        if kind == _TITLE:
            title = _with_line_breaks(shape.text_frame.text)
        elif kind == _CONTENT:
            bullets += [
                _with_line_breaks(paragraph.text) for paragraph in shape.text_frame.paragraphs if paragraph.text
            ]
        elif (drawn := _shape(shape)) is not None:
            shapes.append(drawn)
    return Slide(_layout(source), title, tuple(bullets), tuple(shapes))


def _layout(source: Any) -> Layout:
    layout = source.slide_layout
    kind = _NAMES.get(layout.name) or _TYPES.get(layout._element.get("type") or "", "title_content")
    if kind == "blank" and source.shapes.title is not None:
        return "title_content"  # LibreOffice writes ``blank`` for unknown layouts
    return kind


def _role(shape: Any) -> str:
    """``Title``, ``Content``, or empty for other shapes, dates, footers and numbers."""
    if not shape.is_placeholder:
        return shape.name if shape.name in (_TITLE, _CONTENT) and shape.has_text_frame else ""
    kind = shape.placeholder_format.type
    name = "" if kind is None else str(kind.name)
    if name in ("TITLE", "CENTER_TITLE", "VERTICAL_TITLE"):
        return _TITLE
    return _CONTENT if name in ("OBJECT", "BODY", "SUBTITLE", "VERTICAL_BODY") and shape.has_text_frame else ""


def _shape(shape: Any) -> Shape | None:
    """The shape; None = unsupported."""
    tag = shape._element.tag.rpartition("}")[2]
    if tag == "pic":
        description = shape._element.nvPicPr.cNvPr.get("descr") or ""
        return Shape("image", description, shape.name.removeprefix(_IMAGE) if shape.name.startswith(_IMAGE) else "")
    if tag != "sp" or shape.is_placeholder:
        return None
    kind, text = _kind(shape), _with_line_breaks(shape.text_frame.text)
    return Shape(kind, text) if text or kind != "text" else None


def _kind(shape: Any) -> ShapeKind:
    properties = shape._element.spPr.prstGeom
    form = "" if properties is None else properties.get("prst") or ""
    if shape._element.is_textbox or (form == "rect" and shape.name.startswith("text ")):
        return "text"
    if form == "ellipse":
        return "ellipse"
    return "arrow" if "arrow" in form.lower() else "rectangle"


def _with_line_breaks(text: str) -> str:
    """The text with line ends for the library's line breaks inside paragraphs."""
    return text.replace("\v", "\n")
