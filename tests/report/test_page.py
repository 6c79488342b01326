"""The page is complete, well formed and self-contained, and escapes text of agents and users."""

import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from upturn.errors import RecordError
from upturn.records import GateResult
from upturn.report import (
    Estimate,
    LineageStep,
    Measurement,
    ReportContent,
    StateChange,
    Success,
    read_content,
    render,
    write_content,
    write_report,
)

VOID = {"meta", "link", "br", "hr", "img", "input", "use", "path"}
HOSTILE = "</code></svg><script>alert('x')</script>&amp;<img src=x onerror=alert(1)>"


class Outline(HTMLParser):
    """Checks that tags balance, and collects headings, ids and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[int] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        assert len(attributes) == len(attrs), f"repeated attribute in <{tag}>"
        self.tags.append((tag, attributes))
        if attributes.get("id"):
            self.ids.append(str(attributes["id"]))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID or "svg" in self.open:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
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


def visible(page: str) -> str:
    return " ".join(" ".join(outline(page).text).split()).replace("\u00a0", " ")


def test_a_learning_curve_links_to_its_runs_page(content: ReportContent) -> None:
    few = replace(content, measurements=(), canaries=(), routing=None, changes=())
    linked = replace(few, curves=(replace(few.curves[0], page="training/grpo/report.html"),))
    assert [
        a["href"] for tag, a in outline(render(linked)).tags if tag == "a" and "training" in str(a["href"])
    ] == ["training/grpo/report.html"]
    assert "All metrics of this run" not in visible(render(few))


@pytest.fixture(scope="module")
def page(content: ReportContent) -> str:
    return render(content)


def test_page_is_well_formed_html5(page: str) -> None:
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    parsed = outline(page)
    assert len(parsed.ids) == len(set(parsed.ids))


def test_headings_never_skip_a_level(page: str) -> None:
    headings = outline(page).headings
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(headings))


def test_links_within_the_page_have_targets(page: str) -> None:
    parsed = outline(page)
    targets = {str(attributes["href"])[1:] for tag, attributes in parsed.tags if tag == "a"}
    assert targets == {"better", "learned", "released", "story", "evidence", "next"}
    assert targets <= set(parsed.ids)


def test_every_figure_has_a_caption_and_a_label(page: str) -> None:
    figures = re.findall(r"<figure .*?</figure>", page, flags=re.DOTALL)
    assert len(figures) == 8
    for figure in figures:
        assert re.search(r"<figcaption><h3 id=\"[^\"]+\">[^<]+</h3>[^<]+</figcaption>", figure)
        assert re.search(r'role="img" aria-label="[^"]{20,}"', figure)


def test_every_table_header_has_a_scope(page: str) -> None:
    headers = [attributes for tag, attributes in outline(page).tags if tag == "th"]
    assert headers
    assert {attributes.get("scope") for attributes in headers} == {"col", "row"}


def test_page_is_self_contained_and_runs_no_script(page: str) -> None:
    for tag, attributes in outline(page).tags:
        assert tag not in {"script", "link", "iframe", "img", "object", "embed"}
        assert not any(name.startswith("on") for name in attributes)
        assert not str(attributes.get("href", "#")).startswith(("http", "//"))
    assert "url(http" not in page
    assert "@import" not in page
    assert len(page.encode()) < 2_000_000


def test_headline_comes_first_with_its_evidence(page: str) -> None:
    text = visible(page)
    assert "The agent got better by working 39.1 %" in text
    assert "+49.2 points 95 % interval +44.2 to +54.4" in text
    assert "(GRPO): +24.0 points (95 % interval +19.6 to +28.4, n = 450)" in text
    assert "4 min 47 s" in text


def test_tables_show_the_figures_of_the_summary(page: str) -> None:
    text = visible(page)
    assert "heldout_success_after 0.8833 0.854 to 0.913 450 >= 0.85 ✓ holds" in text
    assert "best_agent_share 0.68 6 >= 0.70 ✗ missed" in text
    assert "points 2,010 ≥ 500 ✓ holds ≥ 10,000 ✗ not yet" in text
    assert "executions 99.8 % 2,006 2,010 ≥ 95 % ✓ holds" in text
    assert "safety violations cost 0.004 a task 0 to 0.011, n = 450" in text
    assert "no significant change" in text


def test_transcripts_are_side_by_side_with_gates_and_changes(page: str) -> None:
    text = visible(page)
    assert "before failure" in text
    assert "missing_parameter: parameter 'hours' is missing" in text
    assert "✗ event exists: no event 'Budget review' on Thu 14:00" in text
    assert "State changes None." in text
    assert "mail.inbox.m7.replied false true" in text


def test_an_insignificant_gain_is_called_insignificant(content: ReportContent, bare: ReportContent) -> None:
    assert content.headline is not None
    flat = replace(content.headline, gain=Estimate(0.012, -0.02, 0.044, 450), gain_sft=None, gain_grpo=None)
    text = visible(render(replace(bare, headline=flat)))
    assert "No significant change" in text
    assert "got better" not in text


@pytest.mark.parametrize(
    ("low", "high", "title"),
    [
        (0.1, 0.2, "The agent got better by working"),
        (-0.1, 0.2, "No significant change"),
        (-0.2, -0.1, "The agent got worse: do not use this version"),
    ],
)
def test_the_browsers_title_is_the_headline(
    content: ReportContent, bare: ReportContent, low: float, high: float, title: str
) -> None:
    assert content.headline is not None
    headline = replace(content.headline, gain=Estimate((low + high) / 2, low, high, 450))
    page = render(replace(bare, headline=headline))
    assert re.findall("<(?:title|h1)>(.*?)</", page) == [f"{title} · Upturn", title]
    assert f"<title>{bare.title} · Upturn</title>" in render(bare)


def test_bars_that_a_short_run_is_not_meant_to_meet_are_explained(content: ReportContent) -> None:
    few = replace(content, measurements=(), curves=(), canaries=(), routing=None, changes=())
    assert "bars met, with figures below" in visible(render(replace(few, bars_note="")))
    text = visible(render(few))
    assert "bars met; this run is not meant to meet all" in text
    assert "The bars of gain are for longer runs. The same figures as in summary.json" in text


def _luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_figures_follow_the_colour_scheme_of_the_page(page: str) -> None:
    dark = dict(re.findall(r"--plot-([a-z-]+): (#[0-9a-f]{6})", page.partition("</style>")[0]))
    figures = "".join(re.findall("<svg .*?</svg>", page, flags=re.DOTALL))
    drawn = dict(re.findall(r"(?:fill|stroke): var\(--plot-([a-z-]+), (#[0-9a-f]{6})\)", figures))
    assert drawn.keys() == dark.keys() - {"red", "brown"}, "eight series are needed for red and brown"
    assert not re.findall(r"(?:fill|stroke): #|(?:fill|stroke)=\"#", figures)
    paper = _luminance(dark["paper"])
    # 3 : 1 for graphics and 4.5 : 1 for text (WCAG 2.2, 1.4.11 and 1.4.3); lines of the grid only separate.
    for name in dark.keys() - {"paper", "grid", "line", "strong-line"}:
        contrast = (_luminance(dark[name]) + 0.05) / (paper + 0.05)
        assert contrast >= (4.5 if name in ("ink", "muted", "good", "bad") else 3), f"{name}: {contrast:.2f}"


def test_the_canary_threshold_is_that_of_the_release(content: ReportContent, bare: ReportContent) -> None:
    text = visible(render(replace(bare, canaries=(replace(content.canaries[0], threshold=80.0),))))
    assert "at most one of 80 canaries" in text


def test_a_minimal_report_shows_only_its_content(bare: ReportContent) -> None:
    page = render(bare)
    text = visible(page)
    assert "My own agents" in text
    assert "No comparison of before and after was measured in this run." in text
    assert "<figure" not in page
    assert "<table" not in page
    assert "<h2" not in page


@pytest.mark.parametrize(
    "part",
    [
        "headline", "measurements", "curves", "routing", "canaries", "changes", "story", "lineage", "readiness",
        "coverage", "floors", "guardrails", "results", "next_commands", "notes",
    ],
)  # fmt: skip
def test_a_page_with_any_single_part_renders(content: ReportContent, bare: ReportContent, part: str) -> None:
    alone = replace(bare, **{part: getattr(content, part)})
    parsed = outline(render(alone))
    assert len(parsed.headings) >= 1
    links = {str(attributes["href"])[1:] for tag, attributes in parsed.tags if tag == "a"}
    assert links <= set(parsed.ids)


def test_no_text_of_agents_or_users_becomes_markup(content: ReportContent) -> None:
    assert content.story is not None
    transcript = content.story.attempts[0]
    turns = (replace(transcript.turns[0], text=HOSTILE, observation=HOSTILE, code=HOSTILE),)
    hostile = replace(
        transcript,
        stage=HOSTILE,
        agent_version=HOSTILE,
        turns=turns,
        gates=(GateResult(name=HOSTILE, is_passed=False, detail=HOSTILE),),
        changes=(StateChange(HOSTILE, HOSTILE, HOSTILE),),
    )
    family = Success(name=HOSTILE, success=Estimate(0.5), level=1)
    page = render(
        replace(
            content,
            title=HOSTILE,
            facts=replace(content.facts, run=HOSTILE, machine=HOSTILE, command=HOSTILE),
            story=replace(content.story, instruction=HOSTILE, task_id=HOSTILE, family=HOSTILE, attempts=(hostile,)),
            measurements=(Measurement(HOSTILE, "sampled", Estimate(0.5), (family,), (family,)),),
            lineage=(LineageStep("run", HOSTILE, (HOSTILE,)),),
            notes=(HOSTILE,),
            curves=(),
            canaries=(),
            changes=(),
            routing=None,
        )
    )
    tags = {tag for tag, _ in outline(page).tags}
    assert not tags & {"script", "img"}
    assert HOSTILE in "".join(outline(page).text)


def test_characters_that_html_forbids_are_replaced(bare: ReportContent) -> None:
    page = render(replace(bare, title="a\x00b\x1b[31mc\x85d", notes=("tab\tand\nline stay",)))
    assert "a\ufffdb\ufffd[31mc\ufffdd" in page
    assert "tab\tand\nline stay" in page


def test_overlong_text_is_cut_with_the_number_of_omitted_characters(
    content: ReportContent, bare: ReportContent
) -> None:
    assert content.story is not None
    story = replace(content.story, instruction="x" * 5_000_000)
    page = render(replace(bare, story=story))
    assert "(4,998,000 more characters)" in page
    assert len(page) < 100_000


def test_saved_content_gives_the_same_page(content: ReportContent, tmp_path: Path) -> None:
    drawn = replace(content, measurements=(), changes=(), canaries=(), routing=None)
    write_content(drawn, tmp_path / "report.json")
    assert read_content(tmp_path / "report.json") == drawn
    write_report(read_content(tmp_path / "report.json"), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == render(drawn)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_a_failed_write_keeps_the_old_report(bare: ReportContent, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("old", encoding="utf-8")
    unwritable = replace(bare, title="a lone surrogate \ud800 cannot be written")
    with pytest.raises(UnicodeEncodeError):
        write_report(unwritable, target)
    assert target.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_unreadable_content_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"missing\.json"):
        read_content(tmp_path / "missing.json")
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RecordError, match="other keys"):
        read_content(tmp_path / "other.json")
