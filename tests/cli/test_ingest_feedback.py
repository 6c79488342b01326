"""``upturn ingest --format feedback``: ratings and corrections of stored trajectories."""

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
    """Makes the command's name required."""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(APP, ["ingest", *(str(argument) for argument in arguments)])


def printed(result: Result, exit_code: int = 0) -> dict[str, Any]:
    assert result.exit_code == exit_code, result.output
    content: dict[str, Any] = json.loads(result.stdout)
    return content


def values(result: Result, exit_code: int = 0) -> dict[str, Any]:
    return {result["name"]: result["value"] for result in printed(result, exit_code)["results"]}


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    path = tmp_path / "pool.db"
    assert run(TAU, "--format", "tau-bench", "--pool", path).exit_code == 0
    return path


@pytest.fixture
def names(pool: Path) -> list[str]:
    with Pool.open(pool, read_only=True) as opened:
        return [item.trajectory_id for item in opened.selected(tenant="default")]


def _file(folder: Path, *lines: object) -> Path:
    path = folder / "feedback.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def test_ratings_are_imported_once(tmp_path: Path, pool: Path, names: list[str]) -> None:
    file = _file(tmp_path, *({"trajectory": name, "thumbs": index % 2 or -1} for index, name in enumerate(names)))
    count = len(names)
    arguments = (file, "--format", "feedback", "--pool", pool)
    assert values(run(*arguments, "--json")) == {"lines": count, "added": count, "known": 0, "quarantined": 0}
    assert values(run(*arguments, "--json")) == {"lines": count, "added": 0, "known": count, "quarantined": 0}
    with Pool.open(pool, read_only=True) as opened:
        feedback = list(opened.feedback(tenant="default"))
    assert [item.subject_id for item in feedback] == names
    assert {item.metric for item in feedback} == {"thumbs"}


def test_invalid_lines_are_quarantined_and_the_others_imported(
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
    content = printed(result, exit_code=1)
    assert {result["name"]: result["value"] for result in content["results"]} == {
        "lines": 5,
        "added": 1,
        "known": 0,
        "quarantined": 4,
    }
    assert [(item["line"], item["reason"].split(";")[0].split(",")[0]) for item in content["quarantine"]] == [
        (2, "the tenant has no trajectory 'nobody'"),
        (3, "thumbs must be a number above 0 (good) or below 0 (bad)"),
        (4, "unknown key 'thumb'"),
        (5, content["quarantine"][3]["reason"].split(";")[0].split(",")[0]),
    ]
    assert content["quarantine"][3]["reason"].startswith("not JSON")
    assert "4 of 5 lines were quarantined; the others are in the pool" in result.stderr


def test_trajectories_of_another_tenant_are_unknown(tmp_path: Path, pool: Path, names: list[str]) -> None:
    file = _file(tmp_path, {"trajectory": names[0], "thumbs": 1})
    result = run(file, "--format", "feedback", "--pool", pool, "--tenant", "other")
    assert result.exit_code == 1
    assert "is this a feedback file?" in result.stderr


def test_an_option_without_effect_is_refused(tmp_path: Path, pool: Path, names: list[str]) -> None:
    file = _file(tmp_path, {"trajectory": names[0], "thumbs": 1})
    result = run(file, "--format", "feedback", "--pool", pool, "--family", "mail", "--agent", "me")
    assert isinstance(result.exception, IngestError)
    assert str(result.exception).startswith("--family and --agent has no effect with --format feedback")


def test_a_missing_pool_is_not_created(tmp_path: Path) -> None:
    file = _file(tmp_path, {"trajectory": "x", "thumbs": 1})
    result = run(file, "--format", "feedback", "--pool", tmp_path / "gone.db")
    assert isinstance(result.exception, IngestError)
    assert "there is no pool" in str(result.exception) and "name one with --pool" in str(result.exception)
    assert not (tmp_path / "gone.db").exists()


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_file_is_refused(tmp_path: Path, pool: Path, content: str) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_text(content)
    result = run(file, "--format", "feedback", "--pool", pool)
    assert isinstance(result.exception, IngestError)
    assert "has no feedback; check the file" in str(result.exception)


def test_a_file_that_is_not_a_pool_is_refused_and_unchanged(tmp_path: Path) -> None:
    file = _file(tmp_path, {"trajectory": "x", "thumbs": 1})
    text = file.read_text()
    result = run(file, "--format", "feedback", "--pool", file)
    assert isinstance(result.exception, StoreError)
    assert "cannot be used as a pool" in str(result.exception)
    assert file.read_text() == text
