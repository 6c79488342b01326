"""Pictures are drawn only from existing figures, and are the same bytes every time."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest
from matplotlib.text import Text
from matplotlib.transforms import BboxBase

from upturn.errors import UnknownNameError, UpturnError
from upturn.report import Estimate, Measurement, ReportContent, Success, canvas, drawing, save_png
from upturn.report.canvas import label
from upturn.report.picture import Picture, draw, plans

NAMES = ["levels", "families", "learning-0", "components", "effort", "canary-0", "canary-1", "routing"]


@pytest.fixture(scope="module")
def pictures(content: ReportContent) -> tuple[Picture, ...]:
    return draw(content)


def test_full_content_gives_every_picture_in_order(pictures: tuple[Picture, ...]) -> None:
    assert [picture.name for picture in pictures] == NAMES


def test_every_picture_has_a_title_and_a_caption(pictures: tuple[Picture, ...]) -> None:
    for picture in pictures:
        assert picture.title
        assert picture.caption.endswith(".")


def test_pictures_are_well_formed_and_self_contained(pictures: tuple[Picture, ...]) -> None:
    for svg in (svg for picture in pictures for svg in (picture.svg, picture.narrow_svg)):
        root = ET.fromstring(svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.attrib["viewBox"]
        addresses = set(re.findall(r"https?://[^\"' <]+", svg))
        assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_ids_are_unique_over_all_pictures_and_references_resolve(pictures: tuple[Picture, ...]) -> None:
    whole = "".join(picture.svg + picture.narrow_svg for picture in pictures)
    ids = re.findall(r'\bid="([^"]+)"', whole)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'xlink:href="#([^"]+)"', whole)) | set(re.findall(r"url\(#([^)]+)\)", whole))
    assert used
    assert used <= set(ids)


def test_the_same_content_gives_the_same_bytes(content: ReportContent, pictures: tuple[Picture, ...]) -> None:
    few = replace(content, curves=(), canaries=(), changes=())
    expected = {picture.name: picture for picture in pictures}
    for picture in draw(few):
        assert picture == expected[picture.name]


def test_drawing_does_not_change_matplotlib(content: ReportContent) -> None:
    before = dict(mpl.rcParams)
    draw(replace(content, measurements=(), curves=(), canaries=(), changes=()))
    assert dict(mpl.rcParams) == before


def test_figures_are_shown_unrounded(pictures: tuple[Picture, ...]) -> None:
    drawings = {picture.name: picture.svg for picture in pictures}
    for text in ("39.1 %", "64.3 %", "88.3 %"):
        assert text in drawings["levels"]
    assert "12.0 % → 77.0 %" in drawings["families"]
    assert "Success on training templates in unseen worlds" in drawings["learning-0"]
    assert "act at 40" in drawings["canary-0"]
    assert "missing" in drawings["components"]
    assert "nano@grpo-60  85.0 %" in drawings["routing"]


def test_minimal_content_has_no_pictures(bare: ReportContent) -> None:
    assert list(plans(bare)) == []


def test_greedy_measurements_alone_have_no_success_picture(bare: ReportContent) -> None:
    greedy = Measurement(stage="before", sampling="greedy", overall=Estimate(0.5))
    assert list(plans(replace(bare, measurements=(greedy,)))) == []


def test_hostile_and_foreign_names_are_drawn_as_text(bare: ReportContent) -> None:
    names = ("</svg><script>alert(1)</script>", "$\\frac{1}{0}$", "会议\x00\x1b[2J", 'id="x" url(#y)', "long " * 40)
    families = tuple(Success(name=name, success=Estimate(0.5)) for name in names)
    measured = Measurement(stage="<b>before</b>", sampling="sampled", overall=Estimate(0.5), families=families)
    for picture in draw(replace(bare, measurements=(measured,))):
        ET.fromstring(picture.svg)
        assert "<script" not in picture.svg
        assert "<b>" not in picture.svg


def test_one_stage_and_one_point_are_enough(content: ReportContent) -> None:
    few = replace(
        content,
        measurements=content.measurements[:1],
        curves=(replace(content.curves[0], points=content.curves[0].points[:1]),),
        canaries=tuple(
            replace(canary, release=replace(canary.release, evidence=canary.release.evidence[:1]))
            for canary in content.canaries
        ),
    )
    assert [picture.name for picture in draw(few)] == NAMES


@pytest.mark.parametrize("width", [canvas.WIDE, canvas.NARROW])
@pytest.mark.parametrize("groups", [1, 3, 4, 5, 6])
def test_figures_above_bars_do_not_overlap(groups: int, width: float) -> None:
    stages = [
        Measurement(
            stage,
            "sampled",
            Estimate(0.888),
            tuple(Success(f"L{level}", Estimate(0.888)) for level in range(1, groups)),
        )
        for stage in ("before", "after SFT", "after GRPO")
    ]
    with canvas.style():
        figure = drawing.levels(stages, width)
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    boxes.sort(key=lambda box: box.x0)
    assert len(boxes) == 3 * groups
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


@pytest.mark.parametrize("width", [canvas.WIDE, canvas.NARROW])
@pytest.mark.parametrize("name", NAMES)
def test_no_text_is_cut_at_the_edge(content: ReportContent, name: str, width: float) -> None:
    plan = next(plan for plan in plans(content) if plan.name == name)
    with canvas.style():
        figure = plan.draw(width)
        figure.draw_without_rendering()
        outside = [
            text.get_text()
            for text in figure.findobj(Text)
            if isinstance(text, Text)
            and text.get_visible()
            and text.get_text()
            and not _is_within(text.get_window_extent(), figure.bbox)
        ]
    # Ticks beyond the limits of an axis exist, but are not drawn.
    drawn = canvas.svg(figure, "a")
    assert [text for text in outside if f">{text}<" in drawn] == []


def _is_within(box: BboxBase, whole: BboxBase) -> bool:
    return bool(whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1)


@pytest.mark.parametrize(("better", "worse"), [(0.5, 0.1), (0.1, 0.5), (0.3, 0.31), (0.31, 0.3), (0.0, 0.0)])
def test_the_labels_of_better_and_worse_are_in_the_order_of_their_curves(
    content: ReportContent, better: float, worse: float
) -> None:
    canary = content.canaries[0]
    last = replace(canary.release.evidence[-1], log_e_better=better, log_e_worse=worse)
    with canvas.style():
        figure = drawing.canary(replace(canary, release=replace(canary.release, evidence=(last,))))
        figure.draw_without_rendering()
        heights = {
            text.get_text().split()[-1]: text.get_window_extent().y0
            for text in figure.axes[0].texts
            if text.get_text().endswith(("better", "worse"))
        }
    assert (heights["better"] > heights["worse"]) == (better >= worse)


@pytest.mark.parametrize(
    ("last", "marks"), [(3, "0 1 2 3"), (22, "0 5 10 15 20"), (1_400, "0 200 400 600 800 1,000 1,200 1,400")]
)
def test_an_axis_of_tasks_is_marked_at_whole_numbers(last: int, marks: str) -> None:
    with canvas.style():
        figure = canvas.new_figure(10, 3.6)
        axes = figure.subplots()
        axes.set_xlim(0, last)
        canvas.count_axis(axes)
        figure.draw_without_rendering()
        drawn = [text.get_text() for text in axes.get_xticklabels() if text.get_position()[0] <= last]
    assert " ".join(drawn) == marks


def test_labels_are_short_and_printable() -> None:
    assert label("a" * 50) == "a" * 35 + "…"
    assert label("a\x1bb\nc") == "a\ufffdb\ufffdc"


def test_png_is_written(content: ReportContent, tmp_path: Path) -> None:
    save_png(content, "levels", tmp_path / "levels.png")
    assert (tmp_path / "levels.png").read_bytes().startswith(b"\x89PNG")


def test_unknown_picture_lists_the_known_ones(content: ReportContent, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no picture 'level'.*levels, families"):
        save_png(content, "level", tmp_path / "a.png")
    with pytest.raises(UpturnError, match=r"\.png"):
        save_png(content, "levels", tmp_path / "a.jpg")
