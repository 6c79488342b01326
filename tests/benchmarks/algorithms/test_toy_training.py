"""Ways of learning reach the optimum of a toy, and say what it took."""

from pathlib import Path

import pytest

from benchmarks.algorithms.toy import TOYS, bandit, language
from benchmarks.algorithms.toy_algorithms import CONTESTANTS
from benchmarks.algorithms.toy_comparison import ToysSettings, places
from benchmarks.algorithms.toy_training import Contest
from upturn.training.optimisation.trainer import torch_threads

SIZES = ToysSettings().sizes


@pytest.mark.parametrize("way", ["sft", "iterated"])
def test_quick_ways_learn_a_language_at_once(way: str, tmp_path: Path) -> None:
    with torch_threads(1):
        found = CONTESTANTS[way].reached(Contest(language(2), 1, tmp_path))
    assert found.start < 0.5
    assert found.worth >= 0.95
    assert (found.tokens == 0) == (way == "sft")
    assert found.seconds > 0


@pytest.mark.slow
@pytest.mark.parametrize("place", places(ToysSettings()), ids="-".join)
def test_every_way_reaches_the_optimum_of_every_toy(place: tuple[str, str], tmp_path: Path) -> None:
    toy, way = place
    with torch_threads(1):
        found = CONTESTANTS[way].reached(Contest(TOYS[toy](SIZES[toy]), 0, tmp_path))
    assert found.start < 0.5
    assert found.worth >= 0.95


@pytest.mark.slow
def test_hints_have_something_to_do(tmp_path: Path) -> None:
    """With 8 attempts at each of 9 words most are failed at first; the answer then helps."""
    contestant = CONTESTANTS["star"]
    with torch_threads(1):
        found = contestant.reached(Contest(language(3), 0, tmp_path))
    first = len(language(3).openings) * contestant.attempts * 2
    assert found.tokens > first, "attempts with hints count too"
    assert found.worth >= 0.95


def test_a_contest_is_the_same_when_it_is_held_again(tmp_path: Path) -> None:
    short = CONTESTANTS["grpo"].shortened(2)
    with torch_threads(1):
        first, second = (short.reached(Contest(bandit(3), 4, tmp_path / name)) for name in "ab")
    assert (first.worth, first.start, first.tokens) == (second.worth, second.start, second.tokens)
    assert first.worth != first.start


@pytest.mark.parametrize(("way", "count"), [("grpo", 1), ("grpo", 3), ("offline", 2)])
def test_shortened_ways_stop_after_so_many_rounds(way: str, count: int) -> None:
    short = CONTESTANTS[way].shortened(count)
    assert short.settings.iterations == count
    assert CONTESTANTS[way].settings != short.settings
