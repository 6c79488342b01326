"""Taking turns, ratios and bars, with a clock that is a list."""

import pytest

from benchmarks.comparison import Bar, Pair, Spread, alternate, memory_ratio, result, speedup, spread
from benchmarks.worker import Made
from upturn.errors import MeasurementError
from upturn.records import Result


def made(seconds: float, peak: float = 1.0) -> Made:
    return Made({"seconds": seconds, "peak_bytes": peak})


def test_sides_take_turns_and_the_beginner_changes() -> None:
    calls: list[str] = []

    def side(name: str) -> Made:
        calls.append(name)
        return made(len(calls))

    pairs = alternate(lambda: side("theirs"), lambda: side("ours"), 3)
    assert calls == ["theirs", "ours", "ours", "theirs", "theirs", "ours"]
    assert [(pair.theirs.seconds, pair.ours.seconds) for pair in pairs] == [(1, 2), (4, 3), (5, 6)]


def test_no_repetition_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        alternate(lambda: made(1), lambda: made(1), 0)


def test_speedup_is_the_median_of_pairwise_ratios() -> None:
    pairs = [Pair(made(6), made(2)), Pair(made(40), made(4)), Pair(made(10), made(2))]
    assert speedup(pairs) == Spread(5.0, 3.0, 10.0, 3)


def test_a_drift_that_hits_both_sides_of_a_pair_leaves_the_ratio_alone() -> None:
    pairs = [Pair(made(6 * drift), made(2 * drift)) for drift in (1.0, 1.5, 7.0)]
    assert speedup(pairs) == pytest.approx((3.0, 3.0, 3.0, 3))


def test_memory_is_our_share_of_theirs() -> None:
    assert memory_ratio([Pair(made(1, 8), made(1, 2)), Pair(made(1, 8), made(1, 6))]) == Spread(0.5, 0.25, 0.75, 2)


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


def test_results_carry_spread_and_bar_where_there_are_any() -> None:
    assert result("speed", spread([4.0, 6.0, 5.0]), "×", Bar(5)) == Result(
        "speed", 5.0, "×", 4.0, 6.0, 3, ">= 5", True
    )
    assert result("gap", 2e-6, "relative") == Result("gap", 2e-6, "relative")


@pytest.mark.parametrize("value", [None, "3", True])
def test_a_figure_that_is_no_number_is_refused(value: str | bool | None) -> None:
    with pytest.raises(MeasurementError, match="'seconds'"):
        _ = Made({"seconds": value}).seconds
