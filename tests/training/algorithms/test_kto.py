"""KTO: toys with a known answer, a hand-computed reference point, and unusable ratings."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.records import RatedTrajectory, Trajectory
from upturn.training import TrainingRow
from upturn.training.algorithms.kto import KtoSettings, RatedBatches, mismatch_rows, run_kto
from upturn.training.distributed.weights import weight_tensors
from upturn.training.row import FloatArray, turn_rows
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.metric import metric_of
from upturn.training.runs.run_folder import CURVE_FILE

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
Toy = Callable[..., Any]
"""``CopyTask`` of conftest."""


def _rated(make: Make, *ratings: bool, task: str | None = None) -> list[RatedTrajectory]:
    """One trajectory per task, unless the task is named."""
    return [
        RatedTrajectory(
            make((1, 3 + index, 2, 9, 10 + index), ((0, 3, 5),), name=f"r{index}", task=task or str(index)), is_good
        )
        for index, is_good in enumerate(ratings)
    ]


def _copying(task: Any, make: Make) -> list[RatedTrajectory]:
    """Every token after every symbol; the copy is liked."""
    return [
        RatedTrajectory(
            make(
                (1, symbol, 2, token),
                name=f"{symbol}/{token}",
                task=str(symbol),
                origin="rendered",
                temperature=None,
            ),
            token == symbol,
        )
        for symbol, token in product(task.symbols, range(20))
    ]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_copying_is_learned_from_ratings_to_95_percent(
    tiny_model: Model, copy_task: Toy, make_trajectory: Make, tmp_path: Path, seed: int
) -> None:
    """One in twenty is liked, so its weight is what the paper advises: n_U/n_D."""
    task = copy_task(tiny_model(seed))
    assert task.score(0) < 0.15
    settings = KtoSettings(
        epochs=30,
        decay="none",
        batch_trajectories=20,
        beta=0.5,
        desirable_weight=19.0,
        optimiser=OptimiserSettings(learning_rate=5e-3),
    )
    run_kto(task.model, _copying(task, make_trajectory), settings, RunOptions(seed, tmp_path))
    assert task.score(0) >= 0.95
    points = read_curve(tmp_path / CURVE_FILE)
    assert {name for point in points for name in point.metrics if metric_of(name) is None} == set()
    assert points[0].metrics["reference_point"] == pytest.approx(0.0, abs=1e-6)


def test_mismatched_continuations_are_of_other_tasks_and_follow_each_prompt(
    make_trajectory: Make,
) -> None:
    rated = _rated(make_trajectory, *[True, False] * 5)
    rows_by_trajectory = [turn_rows(rating.trajectory, weight=1.0) for rating in rated]
    for seed in range(5):
        mismatched = mismatch_rows(rated, rows_by_trajectory, seed)
        for index, row in enumerate(mismatched):
            assert row.token_ids[:4].tolist() == [1, 3 + index, 2, 9]
            assert row.token_ids[4] != 10 + index
            assert row.positions.tolist() == [3, 4]
        assert sorted(row.token_ids[4] for row in mismatched) == list(range(10, 20))
    same = _rated(make_trajectory, True, False, True, task="one")
    assert all(
        row.token_ids[4] != 10 + index
        for index, row in enumerate(
            mismatch_rows(same, [turn_rows(rating.trajectory, weight=1.0) for rating in same], 0)
        )
    )


def test_a_mismatched_row_is_no_longer_than_the_longest_recorded_one(make_trajectory: Make) -> None:
    """A long prompt with a short answer, a short one with a long answer: their join would have nine tokens."""
    long = make_trajectory((1, 2, 3, 4, 5, 6), ((0, 5, 6),), name="long", task="a")
    short = make_trajectory((1, 7, 8, 9, 10), ((0, 1, 3), (1, 4, 5)), name="short", task="b")
    rated = [RatedTrajectory(long, True), RatedTrajectory(short, False)]
    first, second = mismatch_rows(rated, [turn_rows(rating.trajectory, weight=1.0) for rating in rated], 0)
    assert (first.token_ids.tolist(), first.positions.tolist()) == ([1, 2, 3, 4, 5, 7], [5])
    assert (second.token_ids.tolist(), second.positions.tolist()) == ([1, 6], [1])


def test_the_reference_point_is_the_mean_gap_of_mismatched_rows_and_never_negative(
    make_trajectory: Make,
) -> None:
    """The scorer returns −1 a token before training; afterwards .25 and .75 more for each of two tokens: z = 1."""
    rated = _rated(make_trajectory, True, False)
    rows_by_trajectory = [
        turn_rows(rating.trajectory, weight=1.0 if rating.is_desirable else -1.0) for rating in rated
    ]
    moved = {"before": (0.0, 0.0), "up": (0.25, 0.75), "down": (0.25, -0.75)}
    now = "before"

    def scorer(rows: Sequence[TrainingRow]) -> Sequence[FloatArray]:
        return [np.full(2, -1.0 + moved[now][index % 2], dtype=np.float32) for index, _ in enumerate(rows)]

    steps = RatedBatches(
        rows_by_trajectory, mismatch_rows(rated, rows_by_trajectory, 0), KtoSettings(), scorer=scorer
    )
    now = "up"
    assert steps.unit([0, 1]).metrics["reference_point"] == pytest.approx(1.0)
    now = "down"
    assert steps.unit([0, 1]).metrics["reference_point"] == 0.0
    ((stream,),) = steps.unit([1]).minibatches  # a step may hold one kind only
    assert [row.trajectory_id for row in stream.rows] == ["r1"]
    assert stream.denominator == 2.0


class _InterruptedError(Exception):
    """Stops a run in a test."""


def test_a_resumed_run_has_bitwise_the_weights_of_an_uninterrupted_one(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    settings = KtoSettings(
        epochs=3, batch_trajectories=2, optimiser=OptimiserSettings(learning_rate=1e-2), checkpoint_every=3
    )
    rated, undisturbed = _rated(make_trajectory, True, False, True, False, False), tiny_model()
    expected = run_kto(undisturbed, rated, settings, RunOptions(5, tmp_path / "a"))
    assert (expected.units, expected.steps) == (9, 9)

    def stop(point: CurvePoint) -> None:
        if point.units == 5:
            raise _InterruptedError

    with pytest.raises(_InterruptedError):
        run_kto(tiny_model(), rated, settings, RunOptions(5, tmp_path / "b", progress=stop))
    resumed = tiny_model()
    assert run_kto(resumed, rated, settings, RunOptions(5, tmp_path / "b")) == expected
    ours = weight_tensors(resumed)
    assert all(torch.equal(tensor, ours[name]) for name, tensor in weight_tensors(undisturbed).items())
    swapped = [replace(rating, is_desirable=not rating.is_desirable) for rating in rated]
    with pytest.raises(TrainingError, match="another run: ratings is"):
        run_kto(tiny_model(), swapped, settings, RunOptions(5, tmp_path / "b"))


def test_unusable_ratings_are_refused(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    def refused(message: str, rated: Sequence[RatedTrajectory]) -> None:
        with pytest.raises(TrainingError, match=message):
            run_kto(tiny_model(), rated, KtoSettings(), RunOptions(0, tmp_path))

    refused("needs good and bad trajectories, none are rated", [])
    refused("all 3 are rated good", _rated(make_trajectory, True, True, True))
    refused("all 2 are rated bad", _rated(make_trajectory, False, False))
    rated = _rated(make_trajectory, True, False)
    refused("trajectory 'r0' is rated twice", [*rated, replace(rated[0], is_desirable=False)])
    bare = replace(rated[1], trajectory=replace(rated[1].trajectory, rows=()))
    refused("trajectory 'r1' is rated but has no written tokens", [rated[0], bare])
    with pytest.raises(TrainingError, match="seed must be 0 or more, got -1"):
        run_kto(tiny_model(), rated, KtoSettings(), RunOptions(-1, tmp_path))
