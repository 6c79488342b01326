"""Courses in errands: every token counts, the budget ends them, and the same seed goes the same way."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from benchmarks.algorithms import errands_comparison as errands_part
from benchmarks.algorithms.errands_algorithms import WAYS
from benchmarks.algorithms.errands_comparison import AFTER, CoursesSettings, Source, course, measure_courses, names
from benchmarks.algorithms.rft_comparison import RftSettings, measure_rft
from benchmarks.algorithms.token_budget import Meter, SpentError
from benchmarks.credit.errands_setup import Errands, ErrandsSettings
from benchmarks.result_cache import Ledger
from upturn.training.optimisation.trainer import torch_threads
from upturn.training.row import TrainingRow

TINY = ErrandsSettings(
    families=("cell_ask",), demonstrations=2, epochs=1, attempts=5, tasks=1, examined_tasks=2, budget=120
)
WORLD = CoursesSettings().world_model
SETTINGS = CoursesSettings(TINY, observed_rounds=1, world_model=replace(WORLD, common_ratio=None, easy=None))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


@pytest.fixture(scope="module")
def errands(tmp_path_factory: pytest.TempPathFactory) -> Errands:
    """With a model of its own."""
    return Errands(tmp_path_factory.mktemp("errands") / "model", TINY)


def test_the_budget_ends_a_course_and_the_same_seed_goes_the_same_way(errands: Errands) -> None:
    first, second = (course(errands, WAYS["grpo"], 3, settings=SETTINGS, is_after=False) for _ in range(2))
    assert first == second
    tokens = [each for each, _ in first.curve]
    assert tokens[0] == 0
    assert tokens == sorted(set(tokens))
    assert TINY.budget <= tokens[-1] < 2 * TINY.budget
    assert len(first.outcomes) == 2
    assert first.curve[-1][1] == sum(first.outcomes) / 2
    assert first.world_tokens == 0


def test_what_the_world_model_samples_counts(errands: Errands) -> None:
    found = course(errands, WAYS["grpo"], 3, settings=SETTINGS, is_after=True)
    assert found.world_tokens >= TINY.budget * SETTINGS.world_share
    assert found.curve[1][0] == found.world_tokens, "success is looked at between the two stages"
    assert found.curve[-1][0] >= TINY.budget


def test_the_world_model_rehearses_what_the_model_wrote(errands: Errands, monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsed: list[TrainingRow] = []
    monkeypatch.setattr(errands_part, "run_world_model", lambda *_, rehearsal, **__: rehearsed.extend(rehearsal))
    worker = errands.worker()
    with TemporaryDirectory() as name:
        errands_part.learn_world(
            errands, worker, Meter(TINY.budget), seed=3, settings=SETTINGS, folder=Path(name) / "world"
        )
    assert len(rehearsed) == TINY.tasks * TINY.attempts * SETTINGS.observed_rounds


def test_a_round_is_not_begun_with_less_than_half_of_what_it_takes(errands: Errands) -> None:
    def collected(share: float, spent: int) -> int:
        meter = Meter(TINY.budget)
        meter.tokens = spent
        source = Source(errands, errands.worker(), meter, replace(WAYS["star"], round_share=share), seed=0)
        return len(source.collect(0))

    assert collected(0.0, TINY.budget - 1) == 1, "batch by batch to the end"
    assert collected(0.9, 0) > 1
    with pytest.raises(SpentError):
        collected(0.9, int(TINY.budget * 0.6))
    with pytest.raises(SpentError):
        collected(0.0, TINY.budget)


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_every_way_learns_in_the_errands(errands: Errands, name: str) -> None:
    found = course(errands, WAYS[name.removesuffix(AFTER)], 0, settings=SETTINGS, is_after=name.endswith(AFTER))
    assert found.curve[-1][0] >= TINY.budget / 2
    assert (found.world_tokens > 0) == name.endswith(AFTER)


def test_courses_that_were_run_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {"rejection": WAYS["rejection"]}
    monkeypatch.setattr("benchmarks.algorithms.errands_comparison.names", lambda: ["rejection"])
    done = list[None]()
    ledger = Ledger(tmp_path / "ledger", SETTINGS)
    model = tmp_path / "model"
    first = measure_courses(ledger, model, [0], settings=SETTINGS, on_done=lambda: done.append(None))
    assert len(done) == len(ways) == 1
    monkeypatch.setattr(
        "benchmarks.algorithms.errands_comparison.course", lambda *_, **__: pytest.fail("run again")
    )
    assert measure_courses(Ledger(tmp_path / "ledger", SETTINGS), model, [0], settings=SETTINGS) == first


def test_few_examples_are_trained_on_with_both_rewards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = RftSettings(TINY, examples=(2,), tasks=2, attempts=2)
    settings = replace(settings, training=replace(settings.training, iterations=1))
    ledger = Ledger(tmp_path / "ledger", settings)
    found = measure_rft(ledger, tmp_path / "model", [0], settings=settings)
    assert {reward: {size: len(seeds) for size, seeds in each.items()} for reward, each in found.after.items()} == {
        "true": {2: 1},
        "random": {2: 1},
    }
    assert found.after["true"][2][0].tokens > 0
    monkeypatch.setattr("benchmarks.algorithms.rft_comparison.train", lambda *_, **__: pytest.fail("trained again"))
    assert measure_rft(Ledger(tmp_path / "ledger", settings), tmp_path / "model", [0], settings=settings) == found
