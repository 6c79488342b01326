"""The training page is complete and self-contained, and escapes the run's names."""

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from upturn.report.training import PAGE_FILE, TrainingReport, render_training, write_training_report
from upturn.report.training.page import figures
from upturn.training.runs.curve import CurvePoint

VOID = {"meta", "use", "path", "br"}
HOSTILE = "</code></svg><script>alert('x')</script>"


class Outline(HTMLParser):
    """Checks that tags balance; collects ids, links, headings and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.headings: list[int] = []
        self.tags: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.add(tag)
        self.ids += [str(attributes["id"])] if "id" in attributes else []
        self.links += [str(attributes["href"])] if "href" in attributes else []
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID or "svg" in self.open:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def visible(parsed: Outline) -> str:
    return " ".join(" ".join(parsed.text).split()).replace("\u00a0", " ")


def test_the_page_is_well_formed_and_self_contained(finished: TrainingReport) -> None:
    page = render_training(finished)
    parsed = outline(page)
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {link.removeprefix("#") for link in parsed.links} <= set(parsed.ids)
    assert parsed.headings[0] == 1
    assert all(after - before <= 1 for before, after in zip(parsed.headings, parsed.headings[1:], strict=False))
    addresses = set(re.findall(r"https?://[^\"' <]+", page))
    assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "script" not in parsed.tags
    assert page.startswith("<!DOCTYPE html>")
    page_text = visible(parsed)
    for text in ("All 60 iterations were done.", "(n = 108)", "Held-out evaluations", "5f2b1de0c4"):
        assert text in page_text


def test_the_same_run_gives_the_same_page(supervised: TrainingReport) -> None:
    assert render_training(supervised) == render_training(supervised)


def test_an_unfinished_run_is_marked(under_way: TrainingReport) -> None:
    few = replace(under_way, points=under_way.points[:4])
    words = visible(outline(render_training(few)))
    assert "not finished" in words
    assert "whose weights would be kept" in words


def test_a_run_without_points_has_a_page(finished: TrainingReport) -> None:
    parsed = outline(render_training(replace(finished, points=(), outcome=None)))
    assert "The curve has no points yet." in visible(parsed)
    assert "svg" not in parsed.tags


def test_names_of_other_versions_are_text(finished: TrainingReport) -> None:
    description = replace(finished.description, identity={HOSTILE: HOSTILE}, measure=HOSTILE)
    points = tuple(CurvePoint(n, n, {HOSTILE: float(n), f"cost_{HOSTILE}": n / 2, "score": 0.5}) for n in range(3))
    page = render_training(TrainingReport(HOSTILE, description, points, None))
    assert "<script" not in page
    assert "script" not in outline(page).tags


def test_every_metric_is_in_the_table_with_its_range(finished: TrainingReport) -> None:
    by_name = {item.name: item for item in figures(finished)}
    assert set(by_name) == set(finished.metrics)
    groups = by_name["filtered_groups"]
    values = [value for _, value in finished.values("filtered_groups")]
    assert (groups.first, groups.last, groups.lowest, groups.highest) == (
        values[0],
        values[-1],
        min(values),
        max(values),
    )
    assert by_name["state_values"].meaning == ""
    reduced = replace(finished, points=(CurvePoint(1, 1, {"mean_return": None, "loss": 0.5}),))
    assert [item.name for item in figures(reduced)] == ["loss"]


def test_the_page_is_written_into_the_folder(
    supervised: TrainingReport, save: Callable[[TrainingReport, Path], Path], tmp_path: Path
) -> None:
    folder = save(supervised, tmp_path / "sft")
    path = write_training_report(folder)
    assert path == folder / PAGE_FILE
    assert path.read_text() == render_training(supervised)
    assert sorted(file.name for file in folder.iterdir()) == [
        "curve.jsonl",
        "outcome.json",
        "report.html",
        "run.json",
    ]


@pytest.mark.parametrize("fixture", ["finished", "supervised"])
def test_every_picture_has_a_caption(fixture: str, request: pytest.FixtureRequest) -> None:
    report: TrainingReport = request.getfixturevalue(fixture)
    page = render_training(replace(report, points=report.points[:6]))
    captions = re.findall(r"<figcaption><h3[^>]*>([^<]+)</h3>([^<]+)</figcaption>", page)
    assert len(captions) == page.count("<figure ")
    assert all(title and words.strip().endswith(".") for title, words in captions)
