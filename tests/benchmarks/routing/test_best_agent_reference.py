"""The reference rule by hand, and the bench's bars."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.routing.best_agent import simulate_tensorzero


def test_the_reference_rule_agrees_with_a_slow_version() -> None:
    stops = simulate_tensorzero((0.8, 0.5), runs=20, seed=3, max_tasks=400)
    rng = np.random.default_rng(3)
    outcomes = [rng.random((20, 200)) < rate for rate in (0.8, 0.5)]
    for run in range(20):
        expected = (401, -1)
        for pulls in range(10, 201):
            first, second = (series[run, :pulls].astype(float) for series in outcomes)
            spread = max(first.var(ddof=1), 1e-12) / pulls + max(second.var(ddof=1), 1e-12) / pulls
            gap = first.mean() - second.mean()
            if gap**2 / (2 * spread) > np.log((1 + np.log(2 * pulls)) / 0.05):
                expected = (2 * pulls, int(gap < 0))
                break
        assert (int(stops.tasks[run]), int(stops.best[run])) == expected


def test_the_reference_rules_medians_are_those_of_the_published_table() -> None:
    """Median tasks .90/.50 32 (40 with looks after 20), .60/.50 738."""
    assert np.median(simulate_tensorzero((0.9, 0.5), runs=400, seed=0).tasks) == pytest.approx(32, abs=6)
    twenty = simulate_tensorzero((0.9, 0.5), runs=400, seed=0, look=20)
    assert np.median(twenty.tasks) == 40
    assert (twenty.tasks % 20 == 0).all()


def test_the_quick_command_has_no_bars() -> None:
    result = CliRunner().invoke(app, ["best-agent", "--quick", "--json"])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    names = [entry["name"] for entry in printed["results"]]
    assert "0.85_0.80_ratio" in names
    assert {entry["bar"] for entry in printed["results"]} == {None}
