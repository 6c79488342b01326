"""``upturn train report`` writes a page for every training run in a folder, and prints its path."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from upturn.cli.train import train_app
from upturn.errors import TrainingError
from upturn.training import TrainingOutcome
from upturn.training.runs.curve import Curve, CurvePoint
from upturn.training.runs.run_folder import CURVE_FILE, RunDescription, RunPlan, write_description, write_outcome


def _folder(path: Path, *, has_ended: bool) -> Path:
    path.mkdir(parents=True)
    write_description(path, RunDescription({"algorithm": "toy"}, RunPlan(3, None, 1, "final")))
    with Curve(path / CURVE_FILE, keep_units=None) as curve:
        for units in (1, 2):
            curve.append(CurvePoint(units, units, {"mean_return": units / 4}))
    if has_ended:
        write_outcome(path, TrainingOutcome("finished", 2, 2, "final", 2, "ab", None, None))
    return path


def _run(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(train_app, ["report", *words, "--json"])
    assert result.exit_code == 0, result.output
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def test_one_run_gets_its_page(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "grpo", has_ended=True)
    printed = _run(str(folder))
    assert printed["pages"] == {"grpo": str(folder / "report.html")}
    assert [(result["name"], result["value"]) for result in printed["results"]] == [
        ("grpo: iterations", 2.0),
        ("grpo: stopped", "finished"),
    ]
    assert "Reward in training rollouts" in (folder / "report.html").read_text()


def test_each_training_run_of_a_run_gets_a_page(tmp_path: Path) -> None:
    _folder(tmp_path / "training" / "cycle-1" / "sft", has_ended=True)
    _folder(tmp_path / "training" / "cycle-1" / "grpo", has_ended=False)
    printed = _run(str(tmp_path))
    assert list(printed["pages"]) == ["training/cycle-1/grpo", "training/cycle-1/sft"]
    assert all(Path(page).is_file() for page in printed["pages"].values())
    assert [result["name"] for result in printed["results"] if result["name"].endswith("stopped")] == [
        "training/cycle-1/sft: stopped"
    ]


@pytest.mark.parametrize(
    ("lines", "problem"), [(None, "is missing, with"), (0, "ends after 0 of"), (1, "ends after 1 of")]
)
def test_an_incomplete_curve_is_refused(tmp_path: Path, lines: int | None, problem: str) -> None:
    folder = _folder(tmp_path / "grpo", has_ended=True)
    curve = folder / CURVE_FILE
    remaining = curve.read_text().splitlines(keepends=True)[:lines]
    curve.unlink()
    if lines is not None:
        curve.write_text("".join(remaining))
    result = CliRunner().invoke(train_app, ["report", str(folder)])
    assert isinstance(result.exception, TrainingError)
    assert str(result.exception) == (
        f"the curve {str(curve)!r} {problem} the 2 iterations of the run; restore the file"
    )
    assert not (folder / "report.html").exists()


def test_a_folder_without_training_runs_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(train_app, ["report", str(tmp_path)])
    assert isinstance(result.exception, TrainingError)
    assert "there is no training run in" in str(result.exception)
    assert "no folder in it has run.json; name a folder such as runs/<id>/training" in str(result.exception)


def test_watched_pages_are_updated_until_the_run_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _folder(tmp_path / "grpo", has_ended=False)
    pauses, pages = list[float](), list[str]()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        pages.append((folder / "report.html").read_text())
        if len(pauses) == 2:
            write_outcome(folder, TrainingOutcome("finished", 2, 2, "final", 2, "ab", None, None))

    monkeypatch.setattr("upturn.cli.train.time.sleep", sleep)
    printed = _run(str(folder), "--watch", "5")
    assert pauses == [5.0, 5.0]
    assert all('http-equiv="refresh" content="5"' in page for page in pages)
    assert "refresh" not in (folder / "report.html").read_text()
    assert [result["value"] for result in printed["results"]] == [2.0, "finished"]
