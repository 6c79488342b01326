"""``python -m benchmarks credit`` prints one object, draws two plots, and measures nothing twice."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.commands.credit import bench_credit
from upturn.errors import ConfigError


def _run(*options: str) -> dict[str, object]:
    app = typer.Typer()
    app.command()(bench_credit)
    result = CliRunner().invoke(app, [*options, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    printed: dict[str, object] = json.loads(result.stdout)
    return printed


def test_interrupted_bench_resumes_with_the_same_results(tmp_path: Path) -> None:
    options = ("--quick", "--part", "key_door", "--folder", str(tmp_path / "work"))
    first = _run(*options, "--pictures", str(tmp_path / "pictures"))
    cache = tmp_path / "work" / "key_door" / "measurements.jsonl"
    whole = cache.read_bytes()
    cache.write_bytes(whole[: len(whole) // 2])  # as a kill leaves it: a line cut in two
    second = _run(*options)
    assert second["results"] == first["results"]
    assert sorted(cache.read_bytes().splitlines()) == sorted(whole.splitlines())
    _run(*options)
    assert len(cache.read_bytes()) == len(whole)
    assert (first["command"], first["seeds"], first["sizes"]) == ("benchmarks credit", {"key_door": 2}, "quick")
    for name in ("credit-agreement.png", "credit-learning.png"):
        assert (tmp_path / "pictures" / name).read_bytes().startswith(b"\x89PNG")


def test_more_seeds_are_added_to_the_stored_ones(tmp_path: Path) -> None:
    options = ("--quick", "--part", "key_door", "--folder", str(tmp_path))
    _run(*options, "--seeds", "1")
    before = (tmp_path / "key_door" / "measurements.jsonl").read_bytes()
    _run(*options, "--seeds", "2")
    assert (tmp_path / "key_door" / "measurements.jsonl").read_bytes().startswith(before)


def test_unknown_part_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--part takes key_door.*; got 'ofice'"):
        _run("--part", "ofice", "--folder", str(tmp_path))
