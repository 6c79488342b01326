"""Measures of reward models on held-out data, worked by hand."""

import math

import pytest

from upturn.training.reward_models import (
    JudgedTurns,
    RankedPair,
    aggregate,
    calibration,
    logistic,
    ranking,
    separation,
)


def test_accuracy_counts_equal_scores_as_half() -> None:
    pairs = [
        RankedPair("a", 1.0, 0.0, 5, 3),
        RankedPair("b", 0.5, 0.5, 4, 4),
        RankedPair("c", -1.0, 0.0, 2, 6),
    ]
    measured = ranking(pairs)
    assert measured.accuracy.mean == 0.5
    assert measured.accuracy.n == 3
    assert measured.loss == pytest.approx((math.log(1 + math.exp(-1)) + math.log(2) + math.log(1 + math.e)) / 3)


def test_preference_for_length_is_reported_beside_that_of_the_labels() -> None:
    """The scores are the lengths: the longer side always wins, though only two of three were chosen."""
    lengths = [(5, 3), (7, 1), (2, 6)]
    pairs = [RankedPair(str(index), long, short, long, short) for index, (long, short) in enumerate(lengths)]
    measured = ranking(pairs)
    assert measured.longer_preferred == 1.0
    assert measured.longer_chosen == pytest.approx(2 / 3)
    assert measured.length_correlation == pytest.approx(1.0)
    opposed = ranking([RankedPair("a", -5.0, -3.0, 5, 3), RankedPair("b", -1.0, -2.0, 1, 2)])
    assert opposed.longer_preferred == 0.0
    assert opposed.length_correlation == pytest.approx(-1.0)


def test_sides_of_equal_length_tell_nothing_about_length() -> None:
    measured = ranking([RankedPair("a", 1.0, 0.0, 4, 4)])
    assert (measured.longer_preferred, measured.longer_chosen, measured.length_correlation) == (None, None, None)


def test_swapping_all_sides_turns_accuracy_into_its_complement() -> None:
    pairs = [RankedPair(str(index), index * 0.3, 1.0 - index * 0.2, 3, 4) for index in range(7)]
    swapped = [RankedPair(p.task, p.rejected, p.chosen, p.rejected_tokens, p.chosen_tokens) for p in pairs]
    assert ranking(pairs).accuracy.mean == pytest.approx(1 - ranking(swapped).accuracy.mean)


def test_calibration_of_four_turns() -> None:
    """Errors of .1, .1, .4 and .6."""
    measured = calibration(
        [
            JudgedTurns("a", [0.9, 0.1], [1.0, 0.0], 0.1, True),
            JudgedTurns("b", [0.6, 0.6], [1.0, 0.0], 0.6, False),
        ]
    )
    assert measured.brier.mean == pytest.approx((0.01 + 0.01 + 0.16 + 0.36) / 4)
    assert measured.base_brier == 0.25
    # bins: .9 misses by .1, .1 by .1; both .6 together predict .6 where half succeeded
    assert measured.calibration_error == pytest.approx((0.1 + 0.1 + 2 * 0.1) / 4)
    expected = -(2 * math.log(0.9) + math.log(0.6) + math.log(0.4)) / 4
    assert measured.loss == pytest.approx(expected)
    assert measured.separation == 0.0  # the success scores below the failure


def test_a_constant_prediction_of_the_mean_is_calibrated_and_no_better_than_the_base() -> None:
    turns = [JudgedTurns(str(index), [0.25], [float(index == 0)], 0.25, index == 0) for index in range(4)]
    measured = calibration(turns)
    assert measured.calibration_error == pytest.approx(0.0)
    assert measured.brier.mean == pytest.approx(measured.base_brier)
    assert measured.separation == 0.5


def test_separation_is_the_share_of_ordered_pairs() -> None:
    """Successes .9 and .5, failures .5 and .1: .9 beats both, .5 ties with one and beats the other."""
    scored = [(0.9, True), (0.5, False), (0.5, True), (0.1, False)]
    assert separation(scored) == pytest.approx((2 + 1.5) / 4)
    assert separation([(0.3, True)]) is None
    assert separation([]) is None


def test_each_aggregation_of_three_turns() -> None:
    turns = [0.5, 0.2, 0.8]
    assert aggregate(turns, "min") == 0.2
    assert aggregate(turns, "product") == pytest.approx(0.08)
    assert aggregate(turns, "last") == 0.8
    assert aggregate(turns, "mean") == pytest.approx(0.5)


def test_the_logistic_function_is_exact_at_its_ends() -> None:
    assert logistic([0.0, 800.0, -800.0]) == [0.5, 1.0, 0.0]
    assert logistic([-30.0])[0] == pytest.approx(math.exp(-30), rel=1e-12)
