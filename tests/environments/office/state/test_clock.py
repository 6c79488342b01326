"""Moments as text: canonical form and range."""

from datetime import datetime

import pytest

from upturn.environments.office.state import OperationError
from upturn.environments.office.state.clock import add_minutes, format_moment, minutes_between, parse_moment


def test_a_moment_has_a_canonical_form() -> None:
    assert parse_moment("2026-03-02 09:30") == datetime(2026, 3, 2, 9, 30)
    assert format_moment(datetime(2026, 3, 2, 9, 30)) == "2026-03-02 09:30"
    assert add_minutes("2026-02-28 23:45", minutes=30) == "2026-03-01 00:15"
    assert minutes_between("2026-03-02 09:30", "2026-03-02 08:00") == -90


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "2026-03-02",
            "2026-3-2 9:30",
            "2026-03-02T09:30",
            "2026-W10-1T09:30",
            "2026-03-02 9:30",
            "20260302 0930",
        ),
        *("2026-02-30 09:30", "2026-03-02 24:00", "2026-03-02 09:30:00", "2026-03-02 09:30\n", "２026-03-02 09:30"),
    ],
)
def test_every_other_form_is_refused(text: str) -> None:
    with pytest.raises(OperationError, match="moments are written 2026-03-02 09:30"):
        parse_moment(text)


@pytest.mark.parametrize(
    ("text", "minutes"), [("9999-12-31 23:30", 30), ("0001-01-01 00:00", -1), ("2026-03-02 09:30", 1e12)]
)
def test_moments_out_of_range_are_refused(text: str, minutes: float) -> None:
    with pytest.raises(
        OperationError, match="moments are from 0001-01-01 00:00 to 9999-12-31 23:59, got"
    ) as refused:
        add_minutes(text, minutes=minutes)
    assert refused.value.code == "bad_value"
    assert add_minutes("9999-12-31 23:30", minutes=29) == "9999-12-31 23:59"
