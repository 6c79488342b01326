"""``upturn pool report``: what the page of a pool says."""

import re
import sqlite3
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from upturn.cli.ingest import ingest
from upturn.cli.pool.commands import pool_app
from upturn.cli.pool.report import collect
from upturn.errors import StoreError
from upturn.pool import Pool, Selection
from upturn.pool.database import Location
from upturn.report.pool import PoolReport, render_pool

CHATS = Path(__file__).parents[1] / "data" / "pool" / "chats_small.jsonl"
APP = typer.Typer()
APP.command("ingest")(ingest)
APP.add_typer(pool_app, name="pool")


def run(*arguments: object) -> Any:
    return CliRunner().invoke(APP, [str(argument) for argument in arguments])


def collected(location: Location) -> PoolReport:
    with Pool.open(location, read_only=True) as pool:
        return collect(pool, "talks.db", "default", Selection())


class _Parser(HTMLParser):
    """Collects what a page refers to, and whether its elements are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.references += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "link", "br", "img", "path", "use", "rect", "circle", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()


def test_a_page_has_the_pools_figures_and_needs_no_other_file(tmp_path: Path) -> None:
    path, out = tmp_path / "pool.db", tmp_path / "page.html"
    run("ingest", CHATS, "--format", "chat", "--pool", path)
    done = run("pool", "report", "--pool", path, "--out", out)
    assert done.exit_code == 0, done.output
    page = out.read_text(encoding="utf-8")
    parser = _Parser()
    parser.feed(page)
    assert parser.open == []
    assert [name for name in parser.references if not name.startswith("#")] == []
    report = collected(path)
    assert report.volume.trajectories == 5
    assert f"<b>{report.volume.trajectories}</b>" in page
    for row in (*report.families, *report.agents):
        assert row.name in page
    assert 'id="families"' in page and 'id="gates"' in page


def test_names_are_data_in_the_page(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    run("ingest", CHATS, "--format", "chat", "--pool", path, "--tenant", "a")
    with Pool.open(path, read_only=True) as pool:
        page = render_pool(collect(pool, "<script>alert(1)</script>.db", "a", Selection()))
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;.db" in page


def test_an_empty_pool_has_a_page(location: Location) -> None:
    Pool.open(location).close()
    report = collected(location)
    assert (report.success, report.clean, report.families, report.periods) == (None, None, (), ())
    page = render_pool(report)
    assert "holds no trajectory of this tenant" in page
    assert "<figure" not in page


def test_changed_records_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    run("ingest", CHATS, "--format", "chat", "--pool", path)
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE evaluations SET verdict = 'failure' WHERE verdict = 'success'")
    raw.close()
    report = collected(path)
    assert report.problems
    assert re.search(r"\d+ records or pages of the database are damaged or were changed", render_pool(report))


def test_a_missing_pool_or_folder_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    missing = run("pool", "report", "--pool", tmp_path / "none.db", "--out", tmp_path / "page.html")
    assert isinstance(missing.exception, StoreError)
    Pool.open(tmp_path / "pool.db").close()
    refused = run("pool", "report", "--pool", tmp_path / "pool.db", "--out", tmp_path / "no" / "page.html")
    assert refused.exit_code == 2 and "there is no folder" in refused.stderr
    assert not list(tmp_path.glob("*.html"))
