"""Presentations as .pptx files, and pictures."""

from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.environments.office.state.deck import LAYOUTS, THEMES, Deck, Shape, Slide, Theme
from upturn.errors import FileFormatError

pptx = pytest.importorskip("pptx", reason="the extra files is not installed")

from upturn.environments.office.files.deck import deck_bytes, read_deck  # noqa: E402
from upturn.environments.office.files.picture import PictureFormat, picture_bytes, read_picture  # noqa: E402


def test_a_deck_survives_a_round_trip_and_equal_decks_give_equal_bytes(deck: Deck) -> None:
    written = deck_bytes(deck)
    assert read_deck(written) == (deck, ())
    assert deck_bytes(deck) == written


@pytest.mark.parametrize("theme", THEMES)
def test_every_theme_survives_a_round_trip_even_without_slides(theme: Theme) -> None:
    assert read_deck(deck_bytes(Deck((), theme))).deck == Deck((), theme)


texts = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"), max_size=20)
shapes = st.builds(Shape, st.sampled_from(["rectangle", "ellipse", "arrow"]), texts)
slides = st.builds(
    Slide,
    st.sampled_from(LAYOUTS),
    texts,
    st.lists(texts.filter(bool), max_size=4).map(tuple),
    st.lists(shapes, max_size=9).map(tuple),
)


@settings(max_examples=8, deadline=None)
@given(st.lists(slides, max_size=4))
def test_any_slides_survive_a_round_trip(content: list[Slide]) -> None:
    assert read_deck(deck_bytes(Deck(tuple(content)))).deck.slides == tuple(content)


def test_shapes_stay_on_the_slide_and_do_not_overlap(deck: Deck) -> None:
    crowded = Slide("title_content", "t", ("b",), tuple(Shape("rectangle", str(at)) for at in range(23)))
    file = pptx.Presentation(BytesIO(deck_bytes(Deck((*deck.slides, crowded)))))
    for slide in file.slides:
        boxes = [
            (shape.left, shape.top, shape.left + shape.width, shape.top + shape.height) for shape in slide.shapes
        ]
        for at, (left, top, right, bottom) in enumerate(boxes):
            assert left >= 0 and top >= 0 and right <= file.slide_width and bottom <= file.slide_height
            for other in boxes[:at]:
                assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


@pytest.mark.parametrize("format_", ["PNG", "JPEG"])
@pytest.mark.parametrize("text", ["the office from outside", "", "ü ☃\n" * 40])
def test_pictures_keep_their_descriptions(format_: PictureFormat, text: str) -> None:
    assert read_picture(picture_bytes(text, format_), format_) == text


def test_foreign_pictures_are_described_by_size_and_broken_ones_refused() -> None:
    from PIL import Image

    target = BytesIO()
    Image.new("RGB", (3, 2)).save(target, "PNG")
    assert read_picture(target.getvalue(), "PNG") == "a picture of 3 by 2 points"
    with pytest.raises(FileFormatError, match="no JPEG picture that can be read"):
        read_picture(target.getvalue(), "JPEG")


def test_foreign_pictures_are_counted() -> None:
    file = pptx.Presentation()
    slide = file.slides.add_slide(file.slide_layouts[6])
    slide.shapes.add_picture(BytesIO(picture_bytes("the team", "PNG")), 0, 0)
    target = BytesIO()
    file.save(target)
    read = read_deck(target.getvalue())
    assert [shape.kind for shape in read.deck.slides[0].shapes] == ["image"]
    assert read.notes == ("1 pictures became their descriptions",)
