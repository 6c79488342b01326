"""Content is a record: it round-trips through JSON and claims nothing without an interval."""

import dataclasses

import pytest

from upturn.errors import RecordError
from upturn.records import from_json, to_json
from upturn.report import CoverageRow, Estimate, ReportContent


def test_full_content_round_trips_through_json(content: ReportContent) -> None:
    assert from_json(ReportContent, to_json(content)) == content


def test_minimal_content_round_trips_through_json(bare: ReportContent) -> None:
    assert from_json(ReportContent, to_json(bare)) == bare


def test_the_full_example_has_every_part(content: ReportContent) -> None:
    empty = [field.name for field in dataclasses.fields(content) if not getattr(content, field.name)]
    assert empty == []


def test_unknown_field_is_refused(bare: ReportContent) -> None:
    text = to_json(bare).replace('"title"', '"subtitle"')
    with pytest.raises(RecordError, match="subtitle"):
        from_json(ReportContent, text)


@pytest.mark.parametrize(
    ("low", "high", "is_above", "is_below"),
    [
        (0.01, 0.2, True, False),
        (-0.2, -0.01, False, True),
        (-0.1, 0.1, False, False),
        (0.0, 0.1, False, False),
        (-0.1, 0.0, False, False),
        (None, None, False, False),
    ],
)
def test_significance_needs_an_interval_that_leaves_zero_out(
    low: float | None, high: float | None, is_above: bool, is_below: bool
) -> None:
    estimate = Estimate(value=0.05, low=low, high=high)
    assert (estimate.is_above_zero, estimate.is_below_zero) == (is_above, is_below)
    assert estimate.is_significant == (is_above or is_below)


def test_coverage_of_nothing_does_not_hold() -> None:
    row = CoverageRow("evaluations", covered=0, total=0, bar=0.9)
    assert row.share is None
    assert not row.holds


def test_coverage_meets_its_bar_exactly() -> None:
    assert CoverageRow("evaluations", covered=9, total=10, bar=0.9).holds
    assert not CoverageRow("evaluations", covered=899, total=1000, bar=0.9).holds
