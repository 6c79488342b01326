"""Numbers on the page are exact and never rounded in their favour."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.report import Estimate
from upturn.report.number import (
    duration,
    number,
    number_interval,
    percent,
    percent_estimate,
    percent_interval,
    points,
    points_estimate,
    points_interval,
    signed,
)


def plain(text: str) -> str:
    """The text without non-breaking spaces."""
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.4133, "41.3 %"),
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.9996, "> 99.9 %"),
        (0.0004, "< 0.1 %"),
        (0.9994, "99.9 %"),
        (0.0006, "0.1 %"),
        (397 / 450, "88.2 %"),
    ],
)
def test_percent_is_exact_to_a_tenth(share: float, text: str) -> None:
    assert plain(percent(share)) == text


@given(st.floats(min_value=0, max_value=1, exclude_min=True, exclude_max=True))
def test_only_exact_shares_print_as_100_or_0_percent(share: float) -> None:
    assert plain(percent(share)) not in {"0 %", "100 %", "0.0 %", "100.0 %"}


@given(st.floats(min_value=0.001, max_value=0.999))
def test_percent_is_within_half_a_tenth(share: float) -> None:
    assert abs(float(plain(percent(share)).removesuffix(" %")) - share * 100) <= 0.05 + 1e-9


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (0.498, "+49.8 points"),
        (-0.021, "−2.1 points"),
        (0.0, "0.0 points"),
        (0.0003, "+0.03 points"),
        (-0.00001, "−0.001 points"),
    ],
)
def test_points_have_a_sign_even_if_tiny(difference: float, text: str) -> None:
    assert plain(points(difference)) == text


@given(st.floats(min_value=-1, max_value=1))
def test_a_printed_difference_never_changes_its_sign(difference: float) -> None:
    text = points(difference)
    assert text.startswith("+" if difference > 0 else "−" if difference < 0 else "0")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.8833, "0.8833"),
        (287.4, "287.4"),
        (2010.0, "2,010"),
        (123456.7, "123,457"),
        (-0.52, "−0.52"),
        (0.00012, "1.20e−04"),
        (0, "0"),
        (True, "1"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "not a number"),
    ],
)
def test_number_keeps_four_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_signed_number_shows_plus_and_minus() -> None:
    assert (signed(0.12), signed(-0.51)) == ("+0.12", "−0.51")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(8.13, "8.1 s"), (59.94, "59.9 s"), (59.96, "1 min 0 s"), (75.2, "1 min 15 s"), (3725, "1 h 2 min")],
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert plain(duration(seconds)) == text


def test_estimates_show_interval_and_n() -> None:
    estimate = Estimate(value=0.4133, low=0.366, high=0.462, n=1450)
    assert plain(percent_estimate(estimate)) == "41.3 % (95 % interval 36.6–46.2 %, n = 1,450)"
    gain = Estimate(value=0.498, low=0.451, high=0.544)
    assert plain(points_estimate(gain)) == "+49.8 points (95 % interval +45.1 to +54.4)"
    assert plain(number_interval(Estimate(4.6, 4.3, 4.95))) == "4.3 to 4.95"


def test_estimates_without_interval_show_only_known_parts() -> None:
    assert plain(percent_estimate(Estimate(0.5))) == "50.0 %"
    assert plain(percent_estimate(Estimate(0.5, n=4))) == "50.0 % (n = 4)"
    for interval in (percent_interval, points_interval, number_interval):
        assert interval(Estimate(0.5, low=0.1)) == ""


def test_interval_ends_too_close_to_a_limit_are_marked() -> None:
    assert plain(percent_interval(Estimate(0.99, 0.97, 0.9999))) == "97.0 % to > 99.9 %"
    assert points_interval(Estimate(0.01, -0.00001, 0.02)) == "−0.001 to +2.0"


def test_an_interval_just_above_zero_is_not_printed_as_zero() -> None:
    estimate = Estimate(0.01, 1e-5, 0.02)
    assert estimate.is_above_zero
    assert points_interval(estimate) == "+0.001 to +2.0"
    assert math.isclose(estimate.value, 0.01)
