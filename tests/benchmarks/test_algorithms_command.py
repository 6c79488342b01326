"""``python -m benchmarks algorithms`` prints one object, reports skipped parts, and measures nothing twice."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.algorithms.toy_algorithms import ALGORITHMS
from benchmarks.commands.algorithms import bench_algorithms
from upturn.errors import ConfigError, MeasurementError


def _run(*options: str) -> dict[str, Any]:
    app = typer.Typer()
    app.command()(bench_algorithms)
    result = CliRunner().invoke(app, [*options, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


@pytest.mark.slow
def test_interrupted_bench_resumes_with_the_same_results(tmp_path: Path) -> None:
    options = ("--quick", "--part", "toys", "--part", "size", "--folder", str(tmp_path))
    first = _run(*options)
    cache = tmp_path / "toys" / "measurements.jsonl"
    whole = cache.read_bytes()
    lines = whole.splitlines(keepends=True)
    cache.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])  # as a kill leaves it: a line cut in two
    second = _run(*options)
    assert second["results"] == first["results"]
    assert len(cache.read_bytes().splitlines()) == len(lines)
    named = [item["name"] for item in first["results"]]
    assert named[: len(ALGORITHMS)] == [
        *(f"toys_bandit_{name}" for name in ALGORITHMS if name != "world_model"),
        "toys_lamp_world_model",
    ]
    assert "size_grpo" in named
    assert (first["command"], first["seeds"], first["sizes"]) == ("benchmarks algorithms", {"toys": 1}, "quick")
    assert all(item["bar"] is None for item in first["results"])


@pytest.mark.slow
def test_all_parts_run(tmp_path: Path) -> None:
    found = _run("--quick", "--folder", str(tmp_path / "work"), "--pictures", str(tmp_path / "pictures"))
    names = [item["name"] for item in found["results"]]
    for part in ("toys", "losses", "errands", "rft", "processes", "workers", "size"):
        assert any(name.startswith(part) for name in names), part
    for name in ("algorithms-errands.png", "algorithms-examples.png"):
        assert (tmp_path / "pictures" / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(find_spec("trl") is not None, reason="TRL is installed")
def test_part_with_a_missing_requirement_is_refused_by_name_and_otherwise_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MeasurementError, match="no TRL is installed"):
        _run("--quick", "--part", "losses", "--folder", str(tmp_path))
    monkeypatch.setattr("benchmarks.algorithms.bench.PARTS", ("losses", "size"))
    found = _run("--quick", "--folder", str(tmp_path))
    assert [item["value"] for item in found["results"] if item["name"] == "losses"] == ["not measured"]
    assert "pip install" in found["losses"]["not_measured"]


def test_unknown_part_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--part takes toys.*; got 'toy'"):
        _run("--part", "toy", "--folder", str(tmp_path))
