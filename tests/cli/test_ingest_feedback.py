"""``upturn ingest --format feedback``: thumbs and corrections into a pool that has what they speak of."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from upturn.cli.ingest import ingest
from upturn.errors import IngestError, StoreError
from upturn.pool import Pool

TAU = Path(__file__).parents[1] / "data" / "pool" / "tau_bench_small.json"
APP = typer.Typer()
APP.command("ingest")(ingest)


@APP.callback()
def _commands() -> None:
    """Keeps the command's name needed."""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(APP, ["ingest", *(str(argument) for argument in arguments)])


def printed(result: Result, exit_code: int = 0) -> dict[str, Any]:
    assert result.exit_code == exit_code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def values(result: Result, exit_code: int = 0) -> dict[str, Any]:
    return {each["name"]: each["value"] for each in printed(result, exit_code)["results"]}


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    path = tmp_path / "pool.db"
    assert run(TAU, "--format", "tau-bench", "--pool", path).exit_code == 0
    return path


@pytest.fixture
def names(pool: Path) -> list[str]:
    with Pool.open(pool, read_only=True) as opened:
        return [each.trajectory_id for each in opened.selected(tenant="default")]


def _file(folder: Path, *lines: object) -> Path:
    path = folder / "said.jsonl"
    path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines) + "\n")
    return path


def test_thumbs_go_in_once(tmp_path: Path, pool: Path, names: list[str]) -> None:
    file = _file(tmp_path, *({"trajectory": name, "thumbs": at % 2 or -1} for at, name in enumerate(names)))
    count = len(names)
    arguments = (file, "--format", "feedback", "--pool", pool)
    assert values(run(*arguments, "--json")) == {"lines": count, "added": count, "known": 0, "quarantined": 0}
    assert values(run(*arguments, "--json")) == {"lines": count, "added": 0, "known": count, "quarantined": 0}
    with Pool.open(pool, read_only=True) as opened:
        said = list(opened.feedback(tenant="default"))
    assert [each.subject_id for each in said] == names
    assert {each.metric for each in said} == {"thumbs"}


def test_what_cannot_be_used_is_quarantined_with_its_line_and_the_others_go_in(
    tmp_path: Path, pool: Path, names: list[str]
) -> None:
    file = _file(
        tmp_path,
        {"trajectory": names[0], "thumbs": 1},
        {"trajectory": "nobody", "thumbs": 1},
        {"trajectory": names[0], "thumbs": 0},
        {"trajectory": names[0], "thumb": 1},
        "not JSON",
    )
    result = run(file, "--format", "feedback", "--pool", pool, "--json")
    found = printed(result, exit_code=1)
    assert {each["name"]: each["value"] for each in found["results"]} == {
        "lines": 5,
        "added": 1,
        "known": 0,
        "quarantined": 4,
    }
    assert [(each["line"], each["reason"].split(";")[0].split(",")[0]) for each in found["quarantine"]] == [
        (2, "the tenant has no trajectory 'nobody'"),
        (3, "thumbs must be a number above 0 (good) or below 0 (bad)"),
        (4, "unknown key 'thumb'"),
        (5, found["quarantine"][3]["reason"].split(";")[0].split(",")[0]),
    ]
    assert found["quarantine"][3]["reason"].startswith("not JSON")
    assert "4 of 5 lines were quarantined with their reasons; the others are in the pool" in result.stderr


def test_another_tenants_attempts_are_not_there(tmp_path: Path, pool: Path, names: list[str]) -> None:
    file = _file(tmp_path, {"trajectory": names[0], "thumbs": 1})
    result = run(file, "--format", "feedback", "--pool", pool, "--tenant", "other")
    assert result.exit_code == 1
    assert "is this really a feedback file?" in result.stderr


def test_an_option_that_would_do_nothing_is_refused(tmp_path: Path, pool: Path, names: list[str]) -> None:
    file = _file(tmp_path, {"trajectory": names[0], "thumbs": 1})
    result = run(file, "--format", "feedback", "--pool", pool, "--family", "mail", "--agent", "me")
    assert isinstance(result.exception, IngestError)
    assert str(result.exception).startswith("--family and --agent would do nothing with --format feedback")


def test_a_pool_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    file = _file(tmp_path, {"trajectory": "x", "thumbs": 1})
    result = run(file, "--format", "feedback", "--pool", tmp_path / "gone.db")
    assert isinstance(result.exception, IngestError)
    assert "there is no pool" in str(result.exception) and "name one with --pool" in str(result.exception)
    assert not (tmp_path / "gone.db").exists()


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_a_file_that_says_nothing_is_refused(tmp_path: Path, pool: Path, content: str) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_text(content)
    result = run(file, "--format", "feedback", "--pool", pool)
    assert isinstance(result.exception, IngestError)
    assert "holds no feedback; check the file" in str(result.exception)


def test_what_is_no_pool_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = _file(tmp_path, {"trajectory": "x", "thumbs": 1})
    text = file.read_text()
    result = run(file, "--format", "feedback", "--pool", file)
    assert isinstance(result.exception, StoreError)
    assert "cannot be used as a pool" in str(result.exception)
    assert file.read_text() == text
