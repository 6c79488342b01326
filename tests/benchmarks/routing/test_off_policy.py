"""The coverage of off-policy intervals: the logs are those of the policy, and a biased interval breaks its bar."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.routing import off_policy
from benchmarks.routing.off_policy import RATES, VERSIONS, Cell, estimands, make_log, measure_coverage
from upturn.arbiter import self_normalised


def test_propensities_of_a_log_sum_to_1_and_respect_the_floor() -> None:
    logged = make_log(Cell(200, 0.05), np.random.default_rng(0))
    assert len(logged) == 200
    for outcome in logged:
        shares = {option.agent_version: option.probability for option in outcome.decision.alternatives}
        assert sum(shares.values()) == pytest.approx(1.0)
        assert min(shares.values()) >= 0.05 / len(VERSIONS) - 1e-12
        assert outcome.decision.propensity == shares[outcome.decision.chosen]
    mail = [outcome for outcome in logged if outcome.decision.family == "mail"]
    assert mail[-1].decision.alternatives[0].probability > 0.6, "a@1 is best in mail by 35 points"


def test_truths_by_hand() -> None:
    truths = {estimand.name: estimand.truth for estimand in estimands()}
    assert truths["always_a"] == pytest.approx((0.85 + 0.5 + 0.7 + 0.3) / 4)
    assert truths["best_by_family"] == pytest.approx((0.85 + 0.6 + 0.7 + 0.44) / 4)
    assert truths["uniform"] == pytest.approx(sum(sum(rates.values()) for rates in RATES.values()) / 12)


def test_an_interval_that_is_too_short_breaks_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals of width 0 cover with a chance below 1 % each."""
    honest = self_normalised

    def short(*arguments: object) -> object:
        estimate = honest(*arguments)  # type: ignore[arg-type]
        return replace(estimate, low=estimate.value, high=estimate.value)

    monkeypatch.setattr(off_policy, "self_normalised", short)
    results = {result.name: result for result in measure_coverage([Cell(60, 0.05)], logs=20, seed=0)}
    assert results["n60_floor0.05_snips_always_a_coverage"].holds is False
    assert results["n60_floor0.05_snips_always_a_bias"].bar is None


def test_the_quick_command_has_no_bars() -> None:
    result = CliRunner().invoke(app, ["off-policy", "--quick", "--json"])
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert printed["command"] == "benchmarks off-policy"
    assert {entry["bar"] for entry in printed["results"]} == {None}
    assert len(printed["results"]) == 3 * 5 * 2
