"""The lowest of several seeds counts, and stored results are read."""

from pathlib import Path

import pytest

from benchmarks.algorithms.toy_algorithms import ALGORITHMS
from benchmarks.algorithms.toy_comparison import (
    ToyCase,
    ToySettings,
    measure_toys,
    toy_cases,
    toy_details,
    toy_results,
)
from benchmarks.algorithms.toy_training import ToyResult
from benchmarks.result_cache import ResultCache
from upturn.training.optimisation.trainer import torch_threads

RESULTS = {ToyCase("bandit", "grpo"): [ToyResult(0.99, 0.1, 100, 2.0), ToyResult(0.94, 0.3, 300, 4.0)]}


def test_lowest_seed_counts_for_the_bar() -> None:
    (row,) = toy_results(RESULTS, has_bars=True)
    assert (row.name, row.value, row.low, row.high, row.n) == ("toys_bandit_grpo", 0.94, 0.94, 0.99, 2)
    assert (row.bar, row.holds) == (">= 0.95", False)
    (row,) = toy_results(RESULTS, has_bars=False)
    assert (row.bar, row.holds) == (None, None)


def test_costs_are_means_over_the_seeds() -> None:
    assert toy_details(RESULTS) == {
        "bandit": {"grpo": {"start": 0.2, "sampled_tokens": 200, "processor_seconds": 3.0}}
    }


def test_algorithms_have_three_toys_and_the_world_model_has_its_own() -> None:
    cases = toy_cases(ToySettings())
    assert len(cases) == len(set(cases)) == 3 * (len(ALGORITHMS) - 1) + 1
    assert [case.toy for case in cases if case.algorithm == "world_model"] == ["lamp"]


def test_stored_results_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ToySettings({"bandit": 3}, length=1)
    monkeypatch.setattr(
        "benchmarks.algorithms.toy_comparison.ALGORITHMS", {name: ALGORITHMS[name] for name in ("sft", "grpo")}
    )
    done = list[None]()
    with torch_threads(1):
        first = measure_toys(ResultCache(tmp_path, settings), range(2), settings, on_done=lambda: done.append(None))
    assert len(done) == 4
    monkeypatch.setattr("benchmarks.algorithms.toy_comparison._run", lambda *_: pytest.fail("measured again"))
    assert measure_toys(ResultCache(tmp_path, settings), range(2), settings) == first
