"""Plans of releases: against closed forms, against the simulation that they use, and their search."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from upturn.config import CanarySettings, ValidationSettings
from upturn.deployment import plan
from upturn.deployment.plan import (
    PLAN_STEPS,
    HeldoutDesign,
    ReleaseDesign,
    plan_release,
    tasks_needed,
    validation_shares,
)
from upturn.deployment.rule import PROMOTE
from upturn.deployment.simulation import Scenario, simulate

SETTINGS = ValidationSettings()
CANARY = CanarySettings(stages=(0.5, 1.0), max_candidate_episodes=300)


def test_tasks_are_drawn_in_whole_episodes_in_rounds_over_the_families() -> None:
    design = HeldoutDesign((0.0, 1.0, 0.0), effect=0.0, session_tasks=4, correlation=0.5)
    pairs = plan._draw_pairs(design, 30, np.random.default_rng(0))
    assert len(pairs) == len({pair.task_id for pair in pairs}) == 32
    assert Counter(pair.episode for pair in pairs) == dict.fromkeys(map(str, range(8)), 4)
    assert Counter(pair.family for pair in pairs) == {"family 0": 12, "family 1": 12, "family 2": 8}
    assert {(pair.incumbent, pair.candidate) for pair in pairs if pair.family == "family 1"} == {(1.0, 1.0)}
    assert {(pair.incumbent, pair.candidate) for pair in pairs if pair.family == "family 0"} == {(0.0, 0.0)}
    single = plan._draw_pairs(HeldoutDesign((0.5,)), 5, np.random.default_rng(0))
    assert [pair.episode for pair in single] == [None] * 5


def test_success_within_a_session_has_the_asked_correlation() -> None:
    design = HeldoutDesign((0.7,), effect=0.1, session_tasks=2, correlation=0.4)
    pairs = plan._draw_pairs(design, 40_000, np.random.default_rng(1))
    for values, rate in (([pair.incumbent for pair in pairs], 0.7), ([pair.candidate for pair in pairs], 0.8)):
        outcomes = np.array(values, dtype=float).reshape(-1, 2)
        # Both have a standard error below .006.
        assert outcomes.mean() == pytest.approx(rate, abs=0.02)
        assert np.corrcoef(outcomes.T)[0, 1] == pytest.approx(0.4, abs=0.03)


def test_the_share_of_better_candidates_that_pass_is_the_power_of_the_test() -> None:
    """.3 → .5 on 100 tasks: Φ(.2 / sqrt((.3·.7 + .5·.5)/100) − 1.96) = Φ(.989) = .839."""
    shares = validation_shares(HeldoutDesign((0.3,), 0.2), 100, SETTINGS, runs=300, seed=2)
    assert shares.passed.n == 300
    assert shares.passed.mean == pytest.approx(0.839, abs=0.08)  # standard error .021


def test_guardrails_of_twenty_families_fail_unchanged_candidates_on_thirty_tasks() -> None:
    assert validation_shares(HeldoutDesign((0.9,) * 20), 30, SETTINGS, runs=60, seed=0).failed.mean > 0.8


def test_the_search_ends_near_the_number_of_the_closed_form() -> None:
    """Power .9 for .3 → .5: (1.96 + 1.2816)² · .46 / .2² = 121 tasks."""
    needed = tasks_needed(HeldoutDesign((0.3,), 0.2), SETTINGS, runs=100, seed=0)
    assert needed is not None
    # The search brackets to within a quarter; with 90 tasks the power is .80, which 100 runs call .9 in 1 of 200.
    assert 90 <= needed <= 165


def test_without_a_power_only_unchanged_candidates_count() -> None:
    """At .5 no family is strong: the guardrail fails 7 % with any number of tasks."""
    assert tasks_needed(HeldoutDesign((0.5,), 0.01), SETTINGS, power=None, runs=60, seed=3) == 30
    assert tasks_needed(HeldoutDesign((0.5,), session_tasks=5), SETTINGS, power=None, runs=60, seed=3) == 150


def test_a_search_without_an_end_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MAX_TASKS", 100)
    assert tasks_needed(HeldoutDesign((0.5,), 0.01), SETTINGS, runs=50, seed=0) is None


def test_a_search_stops_a_hopeless_number_of_tasks_early() -> None:
    seen = []

    def events() -> Iterator[bool]:
        for event in (True, False, True, True):
            seen.append(event)
            yield event

    assert not plan._is_at_most(events(), 1)
    assert seen == [True, False, True]
    assert plan._is_at_most([True, False, True], 2)


@pytest.mark.parametrize("design", [((1.2,), 0.0), ((0.5,), -0.1)])
def test_rates_outside_of_the_unit_interval_are_rejected(design: tuple[tuple[float, ...], float]) -> None:
    with pytest.raises(ValueError, match="success rates must be in"):
        HeldoutDesign(*design)


def test_a_plan_has_the_figures_of_its_simulations() -> None:
    steps = []
    heldout = HeldoutDesign((0.3, 0.3), 0.4)
    figures = plan_release(
        ReleaseDesign(heldout, 40, 50.0), SETTINGS, CANARY, runs=60, seed=5, on_done=lambda: steps.append(1)
    )
    results = {result.name: result for result in figures}
    assert len(steps) == PLAN_STEPS
    assert len(results) == len(figures)
    outcome = simulate(Scenario(0.3, 0.7, "promote"), CANARY, runs=60, seed=5)
    promoted = outcome.decided(PROMOTE)
    assert results["canary_better_promoted"].value == promoted.mean()
    assert results["canary_better_tasks_95"].value == np.quantile(outcome.candidate_tasks[promoted], 0.95)
    days = np.median(outcome.tasks[promoted]) / 50
    assert results["canary_better_days_median"].value == pytest.approx(days, abs=0.005)
    same = simulate(Scenario(0.3, 0.3, "no promotion"), CANARY, runs=60, seed=5)
    assert results["canary_unchanged_promoted"].value == same.decided(PROMOTE).mean()
    assert results["canary_unchanged_tasks_median"].value == np.median(same.candidate_tasks)
    needed = tasks_needed(heldout, SETTINGS, runs=60, seed=5)
    assert results["validation_tasks"].value == results["validation_planned_tasks"].value == needed
    shares = validation_shares(heldout, 40, SETTINGS, runs=60, seed=5)
    assert results["validation_configured_tasks"].value == 40
    assert results["validation_configured_better_passes"].value == shares.passed.mean
    assert results["validation_planned_better_passes"].bar == ">= 0.9"


def test_a_plan_without_an_end_says_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MAX_TASKS", 40)
    design = ReleaseDesign(HeldoutDesign((0.5,), 0.01), 40, 50.0)
    results = {result.name: result for result in plan_release(design, SETTINGS, CANARY, runs=50, seed=0)}
    assert results["validation_tasks"].value == "none"
    assert "validation_planned_tasks" not in results
