"""Simulated canaries: arrays agree with records, false alarms are rare, worse and better candidates are told
apart."""

import math

import numpy as np
import pytest

from tests.deployment.episodes_for_test import release
from upturn.config import CanarySettings
from upturn.deployment.canary import Canary
from upturn.deployment.episode import Episode
from upturn.deployment.rule import CANDIDATE, HOLD, PROMOTE, ROLLBACK, CanaryState, Count, Reason, decide, observe
from upturn.deployment.simulation import SCENARIOS, Missing, Scenario, _draw, grid, simulate, simulation_results

_STATES = {HOLD: "canary", PROMOTE: "promoted", ROLLBACK: "rolled_back"}


def test_array_and_record_paths_agree_exactly_on_random_traffic() -> None:
    """Sessions with missing outcomes and violations, in blocks of every size, empty ones too."""
    runs, settings = 20, CanarySettings(stages=(0.4, 0.5, 1.0), alpha=0.9, safety_margin=0.5, max_unusable_blocks=3)
    rng = np.random.default_rng(1)
    releases = [release(settings.stages, id=f"r{run}") for run in range(runs)]
    canary, ended = Canary(settings), set[str]()
    state = CanaryState.start(runs, 3)
    scenario = Scenario(0.4, 0.6, "promote", 3, 0.4, Missing(0.02, 0.02, 0.02, 0.02), (0.02, 0.1))
    for block in range(40):
        size, drawn = int(rng.integers(0, 5)) if block else 3, []
        for _ in range(size):
            share = np.asarray(settings.stages)[state.stage.astype(int)]
            episodes = _draw(scenario, share, 0, rng)
            drawn.append(episodes)
            state = observe(state, episodes, settings)
        yes = np.ones(runs, dtype=np.bool_)
        state, verdicts, _ = decide(state, settings, has_episodes=yes & (size > 0), has_costs=yes)
        for run, before in enumerate(releases):
            if before.state != "canary":
                continue
            own = [
                Episode(
                    f"{block}-{index}",
                    "candidate" if episodes.is_candidate[run] else "control",
                    float(episodes.share[run]),
                    int(episodes.tasks[run]),
                    int(episodes.successes[run]),
                    int(episodes.missing[run]),
                    int(episodes.violations[run]),
                    has_costs=True,
                )
                for index, episodes in enumerate(drawn)
            ]
            releases[run] = moved = canary.step(before, own)
            last = moved.evidence[-1]
            assert moved.state == _STATES[int(verdicts[run])]
            ended.add(moved.state)
            for name in ("better", "worse", "unsafe", "safe", "losing"):
                assert getattr(last, f"log_e_{name}") == pytest.approx(state.log_e(name)[run], abs=1e-9)
            assert last.candidate_episodes == state.count(CANDIDATE, Count.EPISODES)[run]
    assert ended == {"canary", "promoted", "rolled_back"}


def test_identical_candidates_are_rarely_promoted_or_blamed() -> None:
    """Ville: each at most 2.5 %; 400 runs exceed 21 with a chance of 1e-3 at the very edge."""
    settings = CanarySettings(max_candidate_episodes=600)
    outcome = simulate(Scenario(0.88, 0.88, "no promotion"), settings, runs=400, seed=3)
    assert outcome.decided(PROMOTE).sum() <= 21
    assert outcome.decided(ROLLBACK).sum() <= 21
    assert (outcome.verdicts != HOLD).all(), "every canary ends"
    open_ones = outcome.reasons == Reason.EXHAUSTED
    assert open_ones.mean() > 0.9
    assert (outcome.verdicts[open_ones] == ROLLBACK).all(), "inconclusive ends in rollback"


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(Scenario(0.7, 0.7, "no promotion", 5, 0.6), marks=pytest.mark.slow),
        Scenario(0.7, 0.7, "no promotion", 20, 0.9),
        Scenario(0.9, 0.8, "no promotion", missing=Missing(1.0)),
        pytest.param(Scenario(0.7, 0.7, "no promotion", missing=Missing(0.3)), marks=pytest.mark.slow),
        Scenario(0.7, 0.6, "no promotion", missing=Missing(control_success=0.5)),
        Scenario(0.5, 0.5, "no promotion", drift=0.3),
        Scenario(0.7, 0.9, "no promotion", violations=(0.0, 0.02)),
        Scenario(0.7, 0.7, "no promotion", block=50),
    ],
    ids=lambda scenario: scenario.name,
)
def test_nothing_that_is_not_better_and_safe_is_promoted(scenario: Scenario) -> None:
    """Ville: at most 2.5 %; 300 runs exceed 17 with a chance of 1e-3 at the very edge."""
    settings = CanarySettings(max_candidate_episodes=500)
    assert simulate(scenario, settings, runs=300, seed=4).decided(PROMOTE).sum() <= 17


def test_better_candidate_is_promoted_within_its_allowance() -> None:
    outcome = simulate(Scenario(0.7, 0.8, "promote"), CanarySettings(), runs=300, seed=5)
    assert outcome.decided(PROMOTE).mean() >= 0.97, "99.8 % planned: 300 runs fall under 97 % with a chance of 1e-9"
    assert np.median(outcome.candidate_tasks) == pytest.approx(350, abs=60)
    assert (outcome.tasks >= outcome.candidate_tasks).all()


def test_worse_candidates_are_rolled_back_soon() -> None:
    """Planned medians 39 and 86; those of 300 runs vary by about 4 and 8."""
    settings = CanarySettings()
    steep = simulate(Scenario(0.88, 0.68, "rollback"), settings, runs=300, seed=6)
    assert steep.decided(ROLLBACK).mean() >= 0.98
    assert np.median(steep.candidate_tasks) == pytest.approx(39, abs=15)
    slow = simulate(Scenario(0.88, 0.73, "rollback"), settings, runs=300, seed=7)
    assert np.median(slow.candidate_tasks) == pytest.approx(86, abs=25)


def test_collapse_in_blocks_of_one_is_caught_within_30_candidate_tasks() -> None:
    outcome = simulate(Scenario(0.90, 0.0, "rollback"), CanarySettings(), runs=300, seed=8)
    assert outcome.decided(ROLLBACK).all()
    assert outcome.candidate_tasks.max() <= 30


@pytest.mark.slow
def test_twenty_releases_of_one_identical_candidate_rarely_promote_it() -> None:
    """Each attempt spends its share of alpha/2: over all 20 at most 2.5 %; 100 agents exceed 9 with 1e-3."""
    settings = CanarySettings(max_candidate_episodes=100, stages=(0.5, 1.0))
    promoted = np.zeros(100, dtype=np.bool_)
    for attempt in range(1, 21):
        scenario = Scenario(0.7, 0.7, "no promotion", block=10)
        promoted |= simulate(scenario, settings, runs=100, seed=100 + attempt, attempt=attempt).decided(PROMOTE)
    assert promoted.sum() <= 9


def test_results_have_bars_and_limits() -> None:
    seen: list[Scenario] = []
    results = {
        result.name: result
        for result in simulation_results(
            CanarySettings(max_candidate_episodes=300),
            runs=100,
            seed=0,
            scenarios=[SCENARIOS[2], Scenario(0.4, 0.8, "promote"), Scenario(0.9, 0.1, "rollback")],
            on_done=seen.append,
        )
    }
    same, better = results["0.88_to_0.88_promoted"], results["0.40_to_0.80_promoted"]
    assert (same.bar, better.bar) == ("<= 0.025", ">= 0.95")
    assert same.n == 100
    assert same.high is not None
    assert same.high > float(same.value)
    assert better.holds is True
    assert results["0.90_to_0.10_median_tasks"].unit == "candidate tasks"
    assert len(seen) == 3


def test_the_grid_names_every_cell_once() -> None:
    names = [scenario.name for scenario in grid()]
    assert len(set(names)) == len(names) > 100
    assert all(scenario.expected == "no promotion" for scenario in grid())
    assert not any(math.isnan(scenario.candidate) or scenario.candidate < 0 for scenario in grid())
