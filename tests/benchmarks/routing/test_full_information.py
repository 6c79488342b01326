"""Coverage on full-information data: true values by hand, logs of the stated shares, and coverage (slow)."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.routing.full_information import Cell, estimands, graded, make_log, measure_full_information
from upturn.arbiter import Recording, read_recording

ROUTELLM = Path(__file__).parents[4] / "shared" / "data" / "routellm_gsm8k_responses.csv"


@pytest.fixture
def recording() -> Recording:
    """100 lines: the first model succeeds on 80, the second on every other one."""
    lines = np.arange(100)
    rewards = np.stack([lines < 80, lines % 2 == 0], axis=1).astype(np.float64)
    return Recording(("x", "y"), ("all",) * 100, rewards, None, (), ())


def test_truths_by_hand(recording: Recording) -> None:
    truths = {estimand.name: estimand.truth for estimand in estimands(recording)}
    assert truths == pytest.approx({"always_1": 0.8, "always_2": 0.5, "equal": 0.65, "mixed": 0.59})


def test_graded_rewards_keep_the_means_scale(recording: Recording) -> None:
    means = graded(recording).rewards.mean(axis=0)
    assert means == pytest.approx([0.56, 0.5], abs=0.01), "noise of .02 over 100 lines: five standard errors"


@pytest.mark.parametrize(("logging", "first"), [("equal", 0.5), ("unequal", 0.9)])
def test_logs_have_the_stated_shares_and_the_lines_outcomes(
    recording: Recording, logging: str, first: float
) -> None:
    logged = make_log(recording, Cell(2000, logging), np.random.default_rng(0))
    assert {outcome.decision.alternatives[0].probability for outcome in logged} == {first}
    chosen = np.array([outcome.decision.chosen == "x" for outcome in logged])
    assert chosen.mean() == pytest.approx(first, abs=0.045), "four standard errors: P < 1e-4"
    of_first = [outcome.reward for outcome in logged if outcome.decision.chosen == "x"]
    assert np.mean(np.array(of_first, dtype=float)) == pytest.approx(0.8, abs=0.06), "four standard errors"
    assert len({outcome.decision.id for outcome in logged}) == 2000


def test_a_learning_log_has_its_own_propensities(recording: Recording) -> None:
    logged = make_log(recording, Cell(400, "thompson"), np.random.default_rng(0))
    for outcome in logged:
        shares = {option.agent_version: option.probability for option in outcome.decision.alternatives}
        assert outcome.decision.propensity == shares[outcome.decision.chosen]
        assert sum(shares.values()) == pytest.approx(1.0)
    assert logged[-1].decision.alternatives[0].probability > 0.8, "the first model is better by 30 points"


def test_results_name_every_estimate_once(recording: Recording) -> None:
    results = measure_full_information(recording, [Cell(40, "equal")], resamples=3, seed=0)
    names = [result.name for result in results]
    assert len(names) == len(set(names)) == 4 * 4 - 1 + 2, "the gain of the logged routing is known to be 0"
    bars = {result.name: result.bar for result in results}
    assert bars["n40_equal_dr_always_1_coverage"] == "0.93 to 0.97"
    assert "n40_equal_gain_mixed_coverage" in names


@pytest.mark.slow
def test_intervals_cover_on_full_information_data() -> None:
    """500 resamples of all lines with equal shares: a coverage of 95 % shows outside 92–98 % with P < 3e-3 each."""
    if not ROUTELLM.exists():
        pytest.skip(f"the published recording is not at {ROUTELLM}")
    results = measure_full_information(read_recording(ROUTELLM), [Cell(1319, "equal")], resamples=500, seed=1)
    assert len(results) == 15
    for result in results:
        assert 0.92 <= float(result.value) <= 0.98, result.name
