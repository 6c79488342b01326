"""A run's folder can be read at any time."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from upturn.errors import TrainingError
from upturn.report.training import TrainingReport, read_training
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.run_folder import CURVE_FILE, DESCRIPTION_FILE, OUTCOME_FILE, RunPlan

Save = Callable[[TrainingReport, Path], Path]


def test_a_finished_run_round_trips(finished: TrainingReport, save: Save, tmp_path: Path) -> None:
    assert read_training(save(finished, tmp_path / "grpo")) == finished


def test_an_unfinished_run_has_the_time_of_its_latest_point(
    under_way: TrainingReport, save: Save, tmp_path: Path
) -> None:
    report = read_training(save(under_way, tmp_path / "grpo"))
    assert report.points == under_way.points
    assert report.outcome is None
    assert report.written.endswith(" UTC")


def test_a_run_that_just_started_can_be_read(under_way: TrainingReport, save: Save, tmp_path: Path) -> None:
    folder = save(under_way, tmp_path / "grpo")
    (folder / CURVE_FILE).unlink()
    report = read_training(folder)
    assert (report.points, report.written) == ((), "")


def test_folders_without_a_readable_run_are_errors(finished: TrainingReport, save: Save, tmp_path: Path) -> None:
    with pytest.raises(
        TrainingError, match=r"is no folder of a training run: cannot read run\.json.*name a folder"
    ):
        read_training(tmp_path)
    folder = save(finished, tmp_path / "grpo")
    (folder / OUTCOME_FILE).write_text("{}")
    with pytest.raises(TrainingError, match=r"outcome\.json.*delete it and resume"):
        read_training(folder)
    (folder / DESCRIPTION_FILE).write_bytes(b"\xff")
    with pytest.raises(TrainingError, match="is no folder of a training run"):
        read_training(folder)


def test_kept_is_the_first_best_evaluation_within_the_limits(finished: TrainingReport) -> None:
    scores = [(0, 0.5, 0.0), (5, 0.9, 0.06), (10, 0.8, 0.05), (15, 0.8, 0.0)]  # the limit is .05
    points = tuple(CurvePoint(units, 0, {"score": score, "cost_safety": cost}) for units, score, cost in scores)
    report = replace(finished, points=points)
    assert report.kept == points[2]
    assert replace(report, points=points[1:2]).kept is None
    last = replace(report.description, plan=RunPlan(60, 5, 1, "final"))
    assert replace(report, description=last).kept is None
