"""Training runs in errands: every token counts, the budget ends them, and equal seeds give equal runs."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from benchmarks.algorithms import errands_comparison
from benchmarks.algorithms.errands_algorithms import ALGORITHMS, RolloutSource
from benchmarks.algorithms.errands_comparison import (
    AFTER,
    ErrandsTrainingSettings,
    measure_errands,
    run_names,
    train,
)
from benchmarks.algorithms.rft_comparison import FewExamplesSettings, measure_rft
from benchmarks.algorithms.token_budget import BudgetExceededError, TokenBudget
from benchmarks.credit.errands_setup import ErrandsSettings, ErrandsSetup
from benchmarks.result_cache import ResultCache
from upturn.training.optimisation.trainer import torch_threads
from upturn.training.row import TrainingRow

TINY = ErrandsSettings(
    families=("cell_ask",), demonstrations=2, epochs=1, group_size=5, tasks=1, evaluation_tasks=2, budget=120
)
WORLD = ErrandsTrainingSettings().world_model
SETTINGS = ErrandsTrainingSettings(
    TINY, observation_rounds=1, world_model=replace(WORLD, common_ratio=None, easy=None)
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> ErrandsSetup:
    """With a new model."""
    return ErrandsSetup(tmp_path_factory.mktemp("errands") / "model", TINY)


def test_budget_ends_a_run_and_equal_seeds_give_equal_runs(setup: ErrandsSetup) -> None:
    first, second = (
        train(setup, ALGORITHMS["grpo"], 3, settings=SETTINGS, has_world_model=False) for _ in range(2)
    )
    assert first == second
    tokens = [count for count, _ in first.curve]
    assert tokens[0] == 0
    assert tokens == sorted(set(tokens))
    assert TINY.budget <= tokens[-1] < 2 * TINY.budget
    assert len(first.outcomes) == 2
    assert first.curve[-1][1] == sum(first.outcomes) / 2
    assert first.world_model_tokens == 0


def test_tokens_of_the_world_model_count(setup: ErrandsSetup) -> None:
    run = train(setup, ALGORITHMS["grpo"], 3, settings=SETTINGS, has_world_model=True)
    assert run.world_model_tokens >= TINY.budget * SETTINGS.world_model_share
    assert run.curve[1][0] == run.world_model_tokens, "success is evaluated between the two stages"
    assert run.curve[-1][0] >= TINY.budget


def test_world_model_also_trains_on_the_models_actions(
    setup: ErrandsSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsed: list[TrainingRow] = []
    monkeypatch.setattr(
        errands_comparison, "run_world_model", lambda *_, rehearsal, **__: rehearsed.extend(rehearsal)
    )
    worker = setup.new_worker()
    with TemporaryDirectory() as name:
        errands_comparison.train_world_model(
            setup, worker, TokenBudget(TINY.budget), seed=3, settings=SETTINGS, folder=Path(name) / "world"
        )
    assert len(rehearsed) == TINY.tasks * TINY.group_size * SETTINGS.observation_rounds


def test_round_does_not_start_with_less_than_half_of_its_tokens(setup: ErrandsSetup) -> None:
    def collected(share: float, spent: int) -> int:
        budget = TokenBudget(TINY.budget)
        budget.tokens = spent
        source = RolloutSource(setup, setup.new_worker(), budget, round_share=share, seed=0)
        return len(source.collect(0))

    assert collected(0.0, TINY.budget - 1) == 1, "batch by batch to the end"
    assert collected(0.9, 0) > 1
    with pytest.raises(BudgetExceededError):
        collected(0.9, int(TINY.budget * 0.6))
    with pytest.raises(BudgetExceededError):
        collected(0.0, TINY.budget)


@pytest.mark.slow
@pytest.mark.parametrize("name", run_names())
def test_every_algorithm_trains_in_errands(setup: ErrandsSetup, name: str) -> None:
    run = train(
        setup, ALGORITHMS[name.removesuffix(AFTER)], 0, settings=SETTINGS, has_world_model=name.endswith(AFTER)
    )
    assert run.curve[-1][0] >= TINY.budget / 2
    assert (run.world_model_tokens > 0) == name.endswith(AFTER)


def test_stored_runs_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.algorithms.errands_comparison.run_names", lambda: ["rejection"])
    done = list[None]()
    cache = ResultCache(tmp_path / "cache", SETTINGS)
    model = tmp_path / "model"
    first = measure_errands(cache, model, [0], settings=SETTINGS, on_done=lambda: done.append(None))
    assert len(done) == 1
    monkeypatch.setattr("benchmarks.algorithms.errands_comparison.train", lambda *_, **__: pytest.fail("run again"))
    assert measure_errands(ResultCache(tmp_path / "cache", SETTINGS), model, [0], settings=SETTINGS) == first


def test_few_examples_are_trained_on_with_both_rewards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = FewExamplesSettings(TINY, examples=(2,), tasks=2, group_size=2)
    settings = replace(settings, training=replace(settings.training, iterations=1))
    cache = ResultCache(tmp_path / "cache", settings)
    results = measure_rft(cache, tmp_path / "model", [0], settings=settings)
    assert {
        reward: {size: len(seeds) for size, seeds in sizes.items()} for reward, sizes in results.after.items()
    } == {
        "true": {2: 1},
        "random": {2: 1},
    }
    assert results.after["true"][2][0].tokens > 0
    monkeypatch.setattr("benchmarks.algorithms.rft_comparison.train", lambda *_, **__: pytest.fail("trained again"))
    assert (
        measure_rft(ResultCache(tmp_path / "cache", settings), tmp_path / "model", [0], settings=settings)
        == results
    )
