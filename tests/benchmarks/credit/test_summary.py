"""Figures from measurements, by hand."""

import math

import pytest

from benchmarks.credit.measurements import Ceiling, Choice, PartFindings, Practised, Ranked
from benchmarks.credit.summary import ahead, details, gain, gains, results


def _courses(*tokens: int, is_reached: bool = True) -> list[Practised]:
    return [Practised(each, is_reached, ((0, 0.0), (each, 0.9))) for each in tokens]


def test_a_gain_is_paired_by_seed_and_student_s() -> None:
    found = gain(_courses(100, 100, 400), _courses(400, 200, 400), compared=1)
    # log2 of 4, 2 and 1: 2, 1, 0; mean 1, deviation 1; Student's .975 quantile with 2 degrees is 4.3027.
    assert found.value == 1.0
    assert found.high == pytest.approx(1 + 4.3027 / math.sqrt(3), abs=1e-4)
    assert found.low == pytest.approx(1 - 4.3027 / math.sqrt(3), abs=1e-4)
    assert not found.is_ahead


def test_the_interval_grows_with_the_number_of_contenders() -> None:
    alone = gain(_courses(100, 100, 400), _courses(400, 200, 400), compared=1)
    among = gain(_courses(100, 100, 400), _courses(400, 200, 400), compared=5)
    # Student's .995 quantile with 2 degrees is 9.9248.
    assert among.high == pytest.approx(1 + 9.9248 / math.sqrt(3), abs=1e-4)
    assert among.value == alone.value


def test_one_seed_has_no_interval_and_is_never_ahead() -> None:
    found = gain(_courses(1), _courses(1000), compared=1)
    assert (found.low, found.high, found.is_ahead) == (None, None, False)


def _part(name: str, state: tuple[int, ...], tree: tuple[int, ...]) -> PartFindings:
    ranked = [Ranked(0.25, ((0.5, 0.25),), 10), Ranked(0.75, ((0.5, 0.75),), 30)]
    return PartFindings(
        name,
        {"trajectory": ranked, "state": ranked},
        {"trajectory": _courses(800, 810, 790), "state": _courses(*state), "tree": _courses(*tree)},
        {"state": Choice(0.3, 2, 0, 500.0)},
    )


def test_ahead_is_who_is_ahead_in_every_part() -> None:
    fast, even = (100, 101, 99), (800, 700, 900)
    assert ahead([_part("key_door", fast, fast), _part("errands", fast, even)]).value == "state"
    assert ahead([_part("key_door", fast, fast)]).value == "state, tree"
    assert ahead([_part("key_door", even, even)]).value == "none"
    assert ahead([_part("key_door", (8000, 8100, 7900), even)]).value == "none"


def test_every_figure_has_its_interval_and_number_of_seeds() -> None:
    part = _part("errands", (100, 101, 99), (800, 700, 900))
    part.ceilings.append(Ceiling(0.5, 2 / 3, math.sqrt(2 / 3), 40, 900))
    found = {each.name: each for each in results(part)}
    assert list(found) == [
        "errands_agreement_trajectory",
        "errands_agreement_state",
        "errands_agreement_ceiling",
        "errands_tokens_trajectory",
        "errands_tokens_state",
        "errands_tokens_tree",
        "errands_gain_state",
        "errands_gain_tree",
    ]
    assert (found["errands_agreement_state"].value, found["errands_agreement_state"].n) == (0.5, 2)
    assert found["errands_tokens_state"].value == 100.0
    assert found["errands_gain_state"].value == pytest.approx(3.0, abs=0.01)
    assert set(gains(part)) == {"state", "tree"}


def test_details_tell_who_gave_up_and_what_was_chosen() -> None:
    part = _part("key_door", (100, 101, 99), (800, 700, 900))
    part.practised["tree"] = _courses(900, 900, 900, is_reached=False)
    found = details(part)
    assert found["not_reached"] == {"trajectory": 0, "state": 0, "tree": 3}
    assert found["tokens_for_agreement"] == {"trajectory": 20.0, "state": 20.0}
    assert found["agreement_by_skill"] == {"trajectory": {"0.5": 0.5}, "state": {"0.5": 0.5}}
    assert found["chosen"] == {"state": {"learning_rate": 0.3, "groups": 2, "continuations": 0}}


def test_without_the_baseline_there_are_no_gains() -> None:
    part = PartFindings("key_door", {}, {"state": _courses(1, 2)})
    assert gains(part) == {}
    assert ahead([part]).value == "none"
