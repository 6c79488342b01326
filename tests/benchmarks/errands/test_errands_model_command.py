"""``python -m benchmarks errands-model`` builds the model of errands, by default in its own folder."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.commands.errands_model import build_errands_model
from benchmarks.errands import MODEL
from benchmarks.errands.pretraining import ERRANDS
from upturn.loop.build_nano import Card, Figure
from upturn.training.pretraining import Recipe

FIGURE: Figure = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 100}


@pytest.mark.parametrize(("options", "target"), [((), Path(MODEL)), (("--output", "elsewhere"), Path("elsewhere"))])
def test_errands_model_is_built(monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], target: Path) -> None:
    calls: list[Any] = []

    def build(recipe: Recipe, work: Path, target: Path, *, seed: int, threads: int, progress: object) -> Card:
        calls.append((recipe, work, target, seed, threads))
        return Card("nano-errands", "", 1, 1, (), seed, threads, "", "", "", {"greedy": FIGURE}, {}, {})

    monkeypatch.setattr("upturn.loop.build_model", build)
    app = typer.Typer()
    app.command()(build_errands_model)
    result = CliRunner().invoke(app, [*options, "--seed", "3", "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    assert calls == [(ERRANDS, Path("build/nano-errands"), target, 3, 1)]
    printed = json.loads(result.stdout)
    assert [(row["name"], row["value"]) for row in printed["results"]] == [("greedy_success", 0.5)]
    assert printed["folder"] == str(target)
