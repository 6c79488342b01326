"""Measured truth in errands: changes computed by hand, and a tiny measurement with the shipped model."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.credit.errands_comparison import (
    measure_agreement,
    measure_errands,
    measure_truth,
    train,
    value_changes,
)
from benchmarks.credit.errands_setup import ErrandsSettings, ErrandsSetup
from benchmarks.credit.estimator import ESTIMATORS
from benchmarks.result_cache import FILE, ResultCache
from upturn.errors import MeasurementError
from upturn.loop.rollouts.state_values import ContinuationReturns
from upturn.records import Observation, Task, Trajectory, Turn
from upturn.training import ScoredGroup, ScoredTrajectory

TINY = ErrandsSettings(
    families=("call_off",),
    demonstrations=2,
    epochs=1,
    agreement_tasks=1,
    group_size=3,
    continuations=4,
    tasks=1,
    evaluate_every=1,
    evaluation_tasks=2,
    budget=100,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> ErrandsSetup:
    """With a new model."""
    return ErrandsSetup(tmp_path_factory.mktemp("errands") / "model", TINY)


def _member(rewards: tuple[float, ...] | None, turns: int) -> ScoredTrajectory:
    record = (Turn(Observation(""), "", None),) * turns
    return ScoredTrajectory(Trajectory("t", "x", "a@1", record, Observation(""), "finished", "sampled"), rewards)


def test_changes_come_from_the_requested_part_of_the_continuations() -> None:
    group = ScoredGroup(Task("x", "", "f", "e"), (_member((0.0, 1.0), 2), _member(None, 1), _member((0.0, 0.0), 2)))
    states = (((0.0, 1.0, 1.0, 0.0), (1.0, 1.0, 1.0, 0.0)), None, ((0.0, 1.0, 1.0, 0.0), ()))
    continued = ContinuationReturns((states,), 0, 0, 0)
    # Values .5 and .75, then 1 + 0: by all; (.5, 1) and (.5, .5) by halves.
    assert value_changes([group], continued, slice(None))[:2].tolist() == [0.25, 0.25]
    assert value_changes([group], continued, slice(2))[:2].tolist() == [0.5, 0.0]
    assert value_changes([group], continued, slice(2, None))[:2].tolist() == [0.0, 0.5]
    assert np.isnan(value_changes([group], continued, slice(None))[2:]).all()


def test_credit_is_compared_with_the_truth_of_the_same_rollouts(setup: ErrandsSetup) -> None:
    truth = measure_truth(setup, 0)
    assert truth.ceiling.turns == len(truth.changes) > 0
    assert 0 <= truth.ceiling.ceiling <= 1
    assert truth.ceiling.ceiling == pytest.approx(truth.ceiling.reliability**0.5)
    plain = measure_agreement(setup, ESTIMATORS[0], 0, truth=truth)
    measured = measure_agreement(setup, replace(ESTIMATORS[5], continuations=2), 0, truth=truth)
    assert all(-1 <= agreement.correlation <= 1 for agreement in (plain, measured))
    assert measured.tokens > plain.tokens
    with pytest.raises(MeasurementError, match="the rollouts of seed 1 are not those of the stored truth"):
        measure_agreement(setup, ESTIMATORS[0], 1, truth=truth)


def test_measurement_resumes_where_it_stopped(setup: ErrandsSetup, tmp_path: Path) -> None:
    estimators = [ESTIMATORS[0]]
    folder = setup._folder
    steps: list[int] = []

    def measure() -> object:
        cache = ResultCache(tmp_path, TINY)
        return measure_errands(cache, folder, estimators, [0], settings=TINY, on_done=lambda: steps.append(1))

    first = measure()
    assert len(steps) == 1 + 2
    whole = (tmp_path / FILE).read_bytes()
    lines = whole.splitlines(keepends=True)
    (tmp_path / FILE).write_bytes(b"".join(lines[:1]))
    assert measure() == first
    assert (tmp_path / FILE).read_bytes() == whole


def test_training_counts_every_token_and_records_an_unreached_target(setup: ErrandsSetup) -> None:
    plain = train(setup, ESTIMATORS[0], 0)
    measured = train(setup, replace(ESTIMATORS[5], training_continuations=(3,)), 0)
    for run in (plain, measured):
        assert run.curve[0][0] == 0
        assert run.is_reached or run.tokens == TINY.budget <= run.curve[-1][0]
    # The first iteration samples the same rollouts in both; one of them samples continuations too.
    if len(plain.curve) > 1 and len(measured.curve) > 1:
        assert measured.curve[1][0] > plain.curve[1][0]
