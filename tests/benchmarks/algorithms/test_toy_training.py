"""Algorithms reach the optimum of a toy, and report their cost."""

from pathlib import Path

import pytest

from benchmarks.algorithms.toy import TOYS, bandit, language
from benchmarks.algorithms.toy_algorithms import ALGORITHMS
from benchmarks.algorithms.toy_comparison import ToySettings, toy_cases
from benchmarks.algorithms.toy_training import ToyRun
from upturn.training.optimisation.trainer import torch_threads

SIZES = ToySettings().sizes


@pytest.mark.parametrize("name", ["sft", "iterated"])
def test_quick_algorithms_learn_a_language(name: str, tmp_path: Path) -> None:
    with torch_threads(1):
        result = ALGORITHMS[name].measure(ToyRun(language(2), 1, tmp_path))
    assert result.start < 0.5
    assert result.reward >= 0.95
    assert (result.tokens == 0) == (name == "sft")
    assert result.seconds > 0


@pytest.mark.slow
@pytest.mark.parametrize("case", toy_cases(ToySettings()), ids="-".join)
def test_every_algorithm_reaches_the_optimum_of_every_toy(case: tuple[str, str], tmp_path: Path) -> None:
    toy, name = case
    with torch_threads(1):
        result = ALGORITHMS[name].measure(ToyRun(TOYS[toy](SIZES[toy]), 0, tmp_path))
    assert result.start < 0.5
    assert result.reward >= 0.95


@pytest.mark.slow
def test_hints_are_needed(tmp_path: Path) -> None:
    """With 8 rollouts on each of 9 words most tasks fail at first; the answer then helps."""
    algorithm = ALGORITHMS["star"]
    with torch_threads(1):
        result = algorithm.measure(ToyRun(language(3), 0, tmp_path))
    first = len(language(3).openings) * algorithm.group_size * 2
    assert result.tokens > first, "hinted rollouts count too"
    assert result.reward >= 0.95


def test_equal_runs_give_equal_results(tmp_path: Path) -> None:
    short = ALGORITHMS["grpo"].shortened(2)
    with torch_threads(1):
        first, second = (short.measure(ToyRun(bandit(3), 4, tmp_path / name)) for name in "ab")
    assert (first.reward, first.start, first.tokens) == (second.reward, second.start, second.tokens)
    assert first.reward != first.start


@pytest.mark.parametrize(("name", "length"), [("grpo", 1), ("grpo", 3), ("offline", 2)])
def test_shortened_algorithms_stop_after_so_many_iterations(name: str, length: int) -> None:
    short = ALGORITHMS[name].shortened(length)
    assert short.settings.iterations == length
    assert ALGORITHMS[name].settings != short.settings
