"""Measured truth in errands: by hand where it can be, and a whole tiny measurement with the shipped model."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.credit.errands_comparison import changes, measure_errands, measure_truth, rank
from benchmarks.credit.errands_setup import Errands, ErrandsSettings
from benchmarks.credit.estimator import CONTENDERS
from benchmarks.result_cache import FILE, Ledger
from upturn.errors import MeasurementError
from upturn.loop.rollouts.state_values import Continued
from upturn.records import Observation, Task, Trajectory, Turn
from upturn.training import ScoredGroup, ScoredTrajectory

TINY = ErrandsSettings(
    families=("call_off",),
    demonstrations=2,
    epochs=1,
    ranked_tasks=1,
    attempts=3,
    continuations=4,
    tasks=1,
    evaluate_every=1,
    examined_tasks=2,
    budget=100,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def errands(tmp_path_factory: pytest.TempPathFactory) -> Errands:
    """With a model of its own."""
    return Errands(tmp_path_factory.mktemp("errands") / "model", TINY)


def _member(rewards: tuple[float, ...] | None, turns: int) -> ScoredTrajectory:
    made = (Turn(Observation(""), "", None),) * turns
    return ScoredTrajectory(Trajectory("t", "x", "a@1", made, Observation(""), "finished", "sampled"), rewards)


def test_changes_come_from_the_part_of_the_continuations_that_was_asked_for() -> None:
    group = ScoredGroup(Task("x", "", "f", "e"), (_member((0.0, 1.0), 2), _member(None, 1), _member((0.0, 0.0), 2)))
    states = (((0.0, 1.0, 1.0, 0.0), (1.0, 1.0, 1.0, 0.0)), None, ((0.0, 1.0, 1.0, 0.0), ()))
    found = Continued((states,), 0, 0, 0)
    # Values .5 and .75, then 1 + 0: by all; (.5, 1) and (.5, .5) by halves.
    assert changes([group], found, slice(None))[:2].tolist() == [0.25, 0.25]
    assert changes([group], found, slice(2))[:2].tolist() == [0.5, 0.0]
    assert changes([group], found, slice(2, None))[:2].tolist() == [0.0, 0.5]
    assert np.isnan(changes([group], found, slice(None))[2:]).all()


def test_truth_is_measured_once_and_credit_is_compared_with_the_same_attempts(errands: Errands) -> None:
    truth = measure_truth(errands, 0)
    assert truth.ceiling.turns == len(truth.changes) > 0
    assert 0 <= truth.ceiling.ceiling <= 1
    assert truth.ceiling.ceiling == pytest.approx(truth.ceiling.reliability**0.5)
    plain = rank(errands, CONTENDERS[0], 0, truth=truth)
    measured = rank(errands, replace(CONTENDERS[5], continuations=2), 0, truth=truth)
    assert all(-1 <= each.correlation <= 1 for each in (plain, measured))
    assert measured.tokens > plain.tokens
    with pytest.raises(MeasurementError, match="the attempts of seed 1 are not those whose truth was measured"):
        rank(errands, CONTENDERS[0], 1, truth=truth)


def test_the_whole_part_goes_on_where_it_was_stopped(errands: Errands, tmp_path: Path) -> None:
    contenders = [CONTENDERS[0]]
    folder = errands._folder
    steps: list[int] = []

    def measured() -> object:
        ledger = Ledger(tmp_path, TINY)
        return measure_errands(ledger, folder, contenders, [0], settings=TINY, on_done=lambda: steps.append(1))

    first = measured()
    assert len(steps) == 1 + 2
    whole = (tmp_path / FILE).read_bytes()
    lines = whole.splitlines(keepends=True)
    (tmp_path / FILE).write_bytes(b"".join(lines[:1]))
    assert measured() == first
    assert (tmp_path / FILE).read_bytes() == whole


def test_practice_counts_every_token_and_says_when_it_gave_up(errands: Errands) -> None:
    from benchmarks.credit.errands_comparison import practise

    plain = practise(errands, CONTENDERS[0], 0)
    measured = practise(errands, replace(CONTENDERS[5], practised=(3,)), 0)
    for course in (plain, measured):
        assert course.curve[0][0] == 0
        assert course.is_reached or course.tokens == TINY.budget <= course.curve[-1][0]
    # The first iteration samples the same attempts in both; one of them pays for continuations as well.
    if len(plain.curve) > 1 and len(measured.curve) > 1:
        assert measured.curve[1][0] > plain.curve[1][0]
