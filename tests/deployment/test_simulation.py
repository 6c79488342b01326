"""Simulated canaries: arrays agree with records, false alarms are rare, published figures are reproduced."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from upturn.config import CanarySettings
from upturn.deployment.canary import Block, Canary
from upturn.deployment.rule import HOLD, PROMOTE, ROLLBACK, CanaryState, Counts, Reason, advance
from upturn.deployment.sequential import FloatArray, posterior_mean, two_arm_log_factor
from upturn.deployment.simulation import SCENARIOS, Scenario, simulate, simulation_results
from upturn.records import Release

_STATES = {HOLD: "canary", PROMOTE: "promoted", ROLLBACK: "rolled_back"}


def random_blocks(rng: np.random.Generator, rates: FloatArray) -> Counts:
    """Returns random blocks, also empty and unbalanced ones, with violations and missing evaluations.

    ``rates`` is (2, R).
    """
    runs = rates.shape[1]
    sizes = [rng.integers(0, 12, runs) * (rng.random(runs) < 0.85) for _ in range(2)]
    good = [rng.binomial(size, rate) for size, rate in zip(sizes, rates, strict=True)]
    bad = [rng.binomial(size, 0.04) for size in sizes]
    missing = rng.integers(0, 3, runs) * (rng.random(runs) < 0.3)
    return Counts(*(part.astype(float) for part in (sizes[0], good[0], bad[0], sizes[1], good[1], bad[1], missing)))


def test_array_and_record_paths_agree_exactly_on_random_blocks() -> None:
    runs, settings = 40, CanarySettings(stages=(0.4, 0.5, 1.0), max_candidate_tasks=150, patience_blocks=3)
    rng = np.random.default_rng(1)
    releases = [Release(f"r{run}", "a", "a@1", "a@2", settings.stages, "canary", 0) for run in range(runs)]
    rates = rng.choice([0.2, 0.6, 0.95], size=(2, runs))
    state, canary, ended = CanaryState.start(runs), Canary(settings), set[str]()
    for _ in range(40):
        blocks = random_blocks(rng, rates)
        state, verdicts, _ = advance(state, blocks, settings)
        for run, release in enumerate(releases):
            if release.state != "canary":
                continue
            block = Block(**{name: int(getattr(blocks, name)[run]) for name in Counts.__slots__})
            releases[run] = moved = canary.step(release, block)
            last = moved.evidence[-1]
            assert moved.state == _STATES[int(verdicts[run])]
            ended.add(moved.state)
            if moved.state == "canary":
                assert moved.stage == state.stage[run]
            assert (last.log_e_better, last.log_e_worse, last.log_e_unsafe, last.log_e_mismatch) == (
                state.log_e_better[run],
                state.log_e_worse[run],
                state.log_e_unsafe[run],
                state.log_e_mismatch[run],
            )
    assert ended == {"canary", "promoted", "rolled_back"}


def test_identical_candidates_rarely_get_a_verdict() -> None:
    """Ville: each at most 2.5 %; 500 runs exceed 24 with a chance of 1e-3 at the very edge."""
    outcome = simulate(Scenario(0.88, 0.88, "coin", "neither"), CanarySettings(), runs=500, seed=3)
    assert outcome.is_decided(PROMOTE).sum() <= 24
    assert outcome.is_decided(ROLLBACK).sum() <= 24
    assert (outcome.verdicts != HOLD).all(), "every canary ends"
    is_exhausted = outcome.reasons == Reason.EXHAUSTED
    assert is_exhausted.mean() > 0.9
    assert (outcome.verdicts[is_exhausted] == ROLLBACK).all(), "inconclusive ends in rollback"


def test_better_candidate_is_promoted_within_max_candidate_tasks() -> None:
    outcome = simulate(Scenario(0.7, 0.8, "coin", "promote"), CanarySettings(), runs=300, seed=5)
    # 99.8 % planned: 300 runs fall below 97 % with a chance of 1e-9.
    assert outcome.is_decided(PROMOTE).mean() >= 0.97
    assert outcome.candidate_tasks.max() <= 2_009


def test_worse_candidates_reproduce_the_published_figures() -> None:
    """Medians of 400 runs vary by about 5 tasks (.88 → .68) and 8 (.88 → .73)."""
    settings = CanarySettings()
    steep = simulate(Scenario(0.88, 0.68, "dealt", "rollback"), settings, runs=400, seed=6)
    assert steep.is_decided(ROLLBACK).all()
    assert np.median(steep.candidate_tasks) == pytest.approx(60, abs=15)
    assert np.quantile(steep.candidate_tasks, 0.95) == pytest.approx(200, abs=45)
    slow = simulate(Scenario(0.88, 0.73, "dealt", "rollback"), settings, runs=400, seed=7)
    assert np.median(slow.candidate_tasks) == pytest.approx(115, abs=25)


def test_collapse_is_detected_within_300_tasks_of_both_arms() -> None:
    """From .88 to .05 at 9:1: the candidate has about 30 of 300 tasks."""
    outcome = simulate(Scenario(0.88, 0.05, "dealt", "rollback"), CanarySettings(), runs=300, seed=8)
    assert outcome.is_decided(ROLLBACK).all()
    assert outcome.candidate_tasks.max() <= 30


class PlugInRun(NamedTuple):
    """Simulated two-arm comparisons without a canary; arrays are (R,)."""

    crossed: npt.NDArray[np.bool_]
    """True where the e-process reached 1/alpha."""
    stopped_at: npt.NDArray[np.int64]
    """Number of pairs at that time; the number simulated if it was not reached."""


def simulate_plug_in(rates: tuple[float, float], *, pairs: int, runs: int, alpha: float, seed: int) -> PlugInRun:
    """Simulates the two-sided plug-in e-process, checked after every pair of tasks, one in each arm."""
    rng = np.random.default_rng(seed)
    log_e, s_a, s_b = np.zeros(runs), np.zeros(runs), np.zeros(runs)
    crossed, stopped_at = np.zeros(runs, dtype=np.bool_), np.full(runs, pairs, dtype=np.int64)
    for seen in range(pairs):
        predicted = posterior_mean(s_a, seen), posterior_mean(s_b, seen)
        y_a, y_b = rng.random(runs) < rates[0], rng.random(runs) < rates[1]
        log_e = log_e + two_arm_log_factor((1, 1), (y_a, y_b), predicted)
        s_a, s_b = s_a + y_a, s_b + y_b
        first = ~crossed & (log_e >= np.log(1.0 / alpha))
        stopped_at[first] = seen + 1
        crossed |= first
    return PlugInRun(crossed, stopped_at)


def test_plug_in_process_has_its_planned_false_alarm_rate_and_power() -> None:
    """Planned: 3.1 % rejections at .30/.30; all at .90/.80, with a median of 264 pairs."""
    same = simulate_plug_in((0.3, 0.3), pairs=2_000, runs=400, alpha=0.05, seed=9)
    assert same.crossed.sum() <= 36, "Ville: at most 5 %; 400 runs exceed 36 with a chance of 4e-4"
    apart = simulate_plug_in((0.9, 0.8), pairs=2_000, runs=400, alpha=0.05, seed=10)
    assert apart.crossed.mean() >= 0.99
    assert np.median(apart.stopped_at) == pytest.approx(264, abs=45)


def test_results_have_bars_limits_and_published_figures() -> None:
    done: list[Scenario] = []
    scenarios = SCENARIOS[2:6]
    rows = simulation_results(CanarySettings(), runs=100, seed=0, scenarios=scenarios, on_done=done.append)
    results = {result.name: result for result in rows}
    same, better = results["0.88_to_0.88_coin_promoted"], results["0.70_to_0.80_coin_promoted"]
    assert (same.bar, better.bar) == ("<= 0.025", ">= 0.95")
    assert same.n == 100
    assert same.high is not None
    assert same.high > float(same.value)
    assert same.holds == (float(same.value) <= 0.025)
    assert better.holds is True
    assert results["0.88_to_0.68_dealt_median_tasks_published"].value == 60.0
    assert done == list(scenarios)


def test_equal_seeds_give_equal_outcomes() -> None:
    first, again, other = (
        simulate(SCENARIOS[5], CanarySettings(), runs=50, seed=seed).candidate_tasks for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()
