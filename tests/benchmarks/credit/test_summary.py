"""Figures from measurements, by hand."""

import math

import pytest

from benchmarks.credit.measurements import Agreement, Ceiling, Hyperparameters, PartResults, TrainingRun
from benchmarks.credit.summary import best_estimators, details, gain, gains, results


def _runs(*tokens: int, is_reached: bool = True) -> list[TrainingRun]:
    return [TrainingRun(count, is_reached, ((0, 0.0), (count, 0.9))) for count in tokens]


def test_gain_is_paired_by_seed_with_students_interval() -> None:
    found = gain(_runs(100, 100, 400), _runs(400, 200, 400), compared=1)
    # log2 of 4, 2 and 1: 2, 1, 0; mean 1, deviation 1; Student's .975 quantile with 2 degrees is 4.3027.
    assert found.value == 1.0
    assert found.high == pytest.approx(1 + 4.3027 / math.sqrt(3), abs=1e-4)
    assert found.low == pytest.approx(1 - 4.3027 / math.sqrt(3), abs=1e-4)
    assert not found.is_better


def test_interval_grows_with_the_number_of_estimators() -> None:
    one = gain(_runs(100, 100, 400), _runs(400, 200, 400), compared=1)
    five = gain(_runs(100, 100, 400), _runs(400, 200, 400), compared=5)
    # Student's .995 quantile with 2 degrees is 9.9248.
    assert five.high == pytest.approx(1 + 9.9248 / math.sqrt(3), abs=1e-4)
    assert five.value == one.value


def test_one_seed_has_no_interval_and_is_never_better() -> None:
    found = gain(_runs(1), _runs(1000), compared=1)
    assert (found.low, found.high, found.is_better) == (None, None, False)


def _part(name: str, state: tuple[int, ...], tree: tuple[int, ...]) -> PartResults:
    agreements = [Agreement(0.25, ((0.5, 0.25),), 10), Agreement(0.75, ((0.5, 0.75),), 30)]
    return PartResults(
        name,
        {"trajectory": agreements, "state": agreements},
        {"trajectory": _runs(800, 810, 790), "state": _runs(*state), "tree": _runs(*tree)},
        {"state": Hyperparameters(0.3, 2, 0, 500.0)},
    )


def test_best_estimators_are_better_in_every_part() -> None:
    fast, even = (100, 101, 99), (800, 700, 900)
    assert best_estimators([_part("key_door", fast, fast), _part("errands", fast, even)]).value == "state"
    assert best_estimators([_part("key_door", fast, fast)]).value == "state, tree"
    assert best_estimators([_part("key_door", even, even)]).value == "none"
    assert best_estimators([_part("key_door", (8000, 8100, 7900), even)]).value == "none"


def test_every_figure_has_an_interval_and_number_of_seeds() -> None:
    part = _part("errands", (100, 101, 99), (800, 700, 900))
    part.ceilings.append(Ceiling(0.5, 2 / 3, math.sqrt(2 / 3), 40, 900))
    rows = {row.name: row for row in results(part)}
    assert list(rows) == [
        "errands_agreement_trajectory",
        "errands_agreement_state",
        "errands_agreement_ceiling",
        "errands_tokens_trajectory",
        "errands_tokens_state",
        "errands_tokens_tree",
        "errands_gain_state",
        "errands_gain_tree",
    ]
    assert (rows["errands_agreement_state"].value, rows["errands_agreement_state"].n) == (0.5, 2)
    assert rows["errands_tokens_state"].value == 100.0
    assert rows["errands_gain_state"].value == pytest.approx(3.0, abs=0.01)
    assert set(gains(part)) == {"state", "tree"}


def test_details_have_unreached_targets_and_hyperparameters() -> None:
    part = _part("key_door", (100, 101, 99), (800, 700, 900))
    part.runs["tree"] = _runs(900, 900, 900, is_reached=False)
    found = details(part)
    assert found["not_reached"] == {"trajectory": 0, "state": 0, "tree": 3}
    assert found["tokens_for_agreement"] == {"trajectory": 20.0, "state": 20.0}
    assert found["agreement_by_skill"] == {"trajectory": {"0.5": 0.5}, "state": {"0.5": 0.5}}
    assert found["chosen"] == {"state": {"learning_rate": 0.3, "groups": 2, "continuations": 0}}


def test_without_the_baseline_there_are_no_gains() -> None:
    part = PartResults("key_door", {}, {"state": _runs(1, 2)})
    assert gains(part) == {}
    assert best_estimators([part]).value == "none"
