"""Summaries of a step's training run."""

from pathlib import Path
from types import ModuleType

import pytest

from upturn.loop.trainers.candidate import has_run, limits_summary, training_folder, training_summary
from upturn.training.outcome import TrainingOutcome
from upturn.training.runs.curve import Curve, CurvePoint
from upturn.training.runs.run_folder import (
    CURVE_FILE,
    WARM_UP_FOLDER,
    RunDescription,
    RunPlan,
    write_description,
    write_outcome,
)


def _write_run(folder: Path, *, unit: str, kept_units: int, keep: str) -> None:
    folder.mkdir(parents=True)
    plan = RunPlan(2, 1, 1, keep, unit=unit)  # type: ignore[arg-type]
    write_description(folder, RunDescription({"algorithm": "toy"}, plan, "success on new tasks"))
    with Curve(folder / CURVE_FILE, keep_units=None) as curve:
        for units in range(3):
            curve.append(CurvePoint(units, units, {"score": 0.5}))
    best = None if keep == "final" else 0.5
    write_outcome(folder, TrainingOutcome("finished", 2, 2, keep, kept_units, "ab", best, best))  # type: ignore[arg-type]


def test_the_summary_says_how_far_training_got_and_which_weights_are_kept(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path) as context:
        assert not has_run(context, "grpo")
        _write_run(training_folder(context, "grpo"), unit="iteration", kept_units=0, keep="best")
        assert has_run(context, "grpo")
        assert limits_summary(context, "grpo") == ""
        assert training_summary(context, "grpo") == (
            "All 2 iterations were done. The weights before any training are kept: the best of 3 evaluations. "
            "The score is success on new tasks."
        )


def test_the_summary_includes_a_warm_up(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path) as context:
        folder = training_folder(context, "world-model")
        _write_run(folder, unit="iteration", kept_units=0, keep="best")
        _write_run(folder / WARM_UP_FOLDER, unit="optimiser step", kept_units=2, keep="final")
        assert training_summary(context, "world-model") == (
            "Supervised warm-up: All 2 optimiser steps were done. RL training: All 2 "
            "iterations were done. The weights after the warm-up are kept: the best of 3 evaluations. The score is "
            "success on new tasks."
        )


@pytest.mark.parametrize("kept", [1, 2])
def test_the_summary_names_the_kept_unit(desk: ModuleType, tmp_path: Path, kept: int) -> None:
    with desk.opened(tmp_path) as context:
        _write_run(training_folder(context, "x"), unit="round", kept_units=kept, keep="best")
        assert f"The weights after round {kept} are kept" in training_summary(context, "x")
