"""The verdict on many coverages."""

from benchmarks.routing.coverage import judged


def _hits(share: float, logs: int = 500) -> list[bool]:
    return [index < share * logs for index in range(logs)]


def test_a_coverage_is_outside_only_if_that_is_shown_among_all() -> None:
    # 91.2 % of 500 alone has p = .07 against 93 %; 88 % has p = 3e-5, which 60 tests leave below .05.
    hits = {f"fine{number}": _hits(0.95) for number in range(28)} | {"chance": _hits(0.912), "low": _hits(0.88)}
    results = {result.name: result for result in judged(hits, has_bars=True)}
    assert results["low"].holds is False
    assert results["chance"].holds is True
    assert results["coverages_shown_below"].value == 1.0
    assert results["coverages_shown_below"].holds is False
    assert results["coverages_shown_above"].value == 0.0


def test_a_coverage_that_is_too_high_is_counted_apart() -> None:
    results = {result.name: result for result in judged({"wide": _hits(1.0), "fine": _hits(0.95)}, has_bars=True)}
    assert results["wide"].holds is False
    assert results["coverages_shown_above"].value == 1.0
    assert results["coverages_shown_below"].holds is True


def test_without_bars_there_is_no_verdict() -> None:
    assert [(result.name, result.bar) for result in judged({"a": _hits(0.5)}, has_bars=False)] == [("a", None)]
