"""Of several seeds the lowest counts, and nothing is measured twice."""

from pathlib import Path

import pytest

from benchmarks.algorithms.toy_algorithms import CONTESTANTS
from benchmarks.algorithms.toy_comparison import (
    Place,
    ToysSettings,
    measure_toys,
    places,
    toys_details,
    toys_results,
)
from benchmarks.algorithms.toy_training import Reached
from benchmarks.result_cache import Ledger
from upturn.training.optimisation.trainer import torch_threads

FOUND = {Place("bandit", "grpo"): [Reached(0.99, 0.1, 100, 2.0), Reached(0.94, 0.3, 300, 4.0)]}


def test_the_lowest_of_the_seeds_is_held_to_the_bar() -> None:
    (found,) = toys_results(FOUND, has_bars=True)
    assert (found.name, found.value, found.low, found.high, found.n) == ("toys_bandit_grpo", 0.94, 0.94, 0.99, 2)
    assert (found.bar, found.holds) == (">= 0.95", False)
    (shown,) = toys_results(FOUND, has_bars=False)
    assert (shown.bar, shown.holds) == (None, None)


def test_what_it_took_is_said_as_means() -> None:
    assert toys_details(FOUND) == {
        "bandit": {"grpo": {"start": 0.2, "sampled_tokens": 200, "processor_seconds": 3.0}}
    }


def test_every_way_is_on_three_toys_and_the_world_model_on_its_own() -> None:
    found = places(ToysSettings())
    assert len(found) == len(set(found)) == 3 * (len(CONTESTANTS) - 1) + 1
    assert [place.toy for place in found if place.way == "world_model"] == ["lamp"]


def test_what_was_measured_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ToysSettings({"bandit": 3}, rounds=1)
    monkeypatch.setattr(
        "benchmarks.algorithms.toy_comparison.CONTESTANTS", {name: CONTESTANTS[name] for name in ("sft", "grpo")}
    )
    done = list[None]()
    with torch_threads(1):
        first = measure_toys(Ledger(tmp_path, settings), range(2), settings, on_done=lambda: done.append(None))
    assert len(done) == 4
    monkeypatch.setattr("benchmarks.algorithms.toy_comparison._reached", lambda *_: pytest.fail("measured again"))
    assert measure_toys(Ledger(tmp_path, settings), range(2), settings) == first
