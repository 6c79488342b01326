"""Alternating steps, ratios and bars, with scripted times."""

import pytest

from benchmarks.comparison import Bar, Pair, Spread, alternate, memory_ratio, result, speedup, spread
from benchmarks.worker import Response
from upturn.errors import MeasurementError
from upturn.records import Result


def response(seconds: float, peak: float = 1.0) -> Response:
    return Response({"seconds": seconds, "peak_bytes": peak})


def test_implementations_take_turns_and_the_first_one_changes() -> None:
    calls: list[str] = []

    def step(name: str) -> Response:
        calls.append(name)
        return response(len(calls))

    pairs = alternate(lambda: step("baseline"), lambda: step("candidate"), 3)
    assert calls == ["baseline", "candidate", "candidate", "baseline", "baseline", "candidate"]
    assert [(pair.baseline.seconds, pair.candidate.seconds) for pair in pairs] == [(1, 2), (4, 3), (5, 6)]


def test_zero_repetitions_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        alternate(lambda: response(1), lambda: response(1), 0)


def test_speedup_is_the_median_of_pairwise_ratios() -> None:
    pairs = [Pair(response(6), response(2)), Pair(response(40), response(4)), Pair(response(10), response(2))]
    assert speedup(pairs) == Spread(5.0, 3.0, 10.0, 3)


def test_drift_within_a_pair_does_not_change_the_ratio() -> None:
    pairs = [Pair(response(6 * drift), response(2 * drift)) for drift in (1.0, 1.5, 7.0)]
    assert speedup(pairs) == pytest.approx((3.0, 3.0, 3.0, 3))


def test_memory_is_a_share_of_the_baselines() -> None:
    assert memory_ratio([Pair(response(1, 8), response(1, 2)), Pair(response(1, 8), response(1, 6))]) == Spread(
        0.5, 0.25, 0.75, 2
    )


@pytest.mark.parametrize(
    ("bar", "value", "text", "holds"),
    [
        (Bar(5), 5.0, ">= 5", True),
        (Bar(5), 4.99, ">= 5", False),
        (Bar(0.5, is_upper=True), 0.5, "<= 0.5", True),
        (Bar(1e-4, is_upper=True), 2e-4, "<= 0.0001", False),
        (Bar(1e-4, is_upper=True), float("nan"), "<= 0.0001", False),
        (Bar(5), float("nan"), ">= 5", False),
    ],
)
def test_bars_are_inclusive_and_never_hold_for_nan(bar: Bar, value: float, text: str, holds: bool) -> None:
    assert (bar.text, bar.holds(value)) == (text, holds)


def test_results_have_spread_and_bar_where_there_are_any() -> None:
    assert result("speed", spread([4.0, 6.0, 5.0]), "×", Bar(5)) == Result(
        "speed", 5.0, "×", 4.0, 6.0, 3, ">= 5", True
    )
    assert result("gap", 2e-6, "relative") == Result("gap", 2e-6, "relative")


@pytest.mark.parametrize("value", [None, "3", True])
def test_figure_that_is_not_a_number_is_refused(value: str | bool | None) -> None:
    with pytest.raises(MeasurementError, match="'seconds'"):
        _ = Response({"seconds": value}).seconds
