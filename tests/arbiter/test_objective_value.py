"""Off-policy checks of an objective: the real costs and seconds count, and forecasts move the new policy."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from upturn.arbiter import EpsilonGreedy, LoggedOutcome, always, check_new_policy, check_policy
from upturn.arbiter.objective_value import mean_used, weighed
from upturn.config import ObjectiveConfig
from upturn.records import Decision, Forecast

MakeDecision = Callable[..., Decision]
HALF = {"a@1": 0.5, "b@1": 0.5}
RATES = {"a@1": 0.9, "b@1": 0.85}
COSTS = {"a@1": 0.02, "b@1": 0.002}
SECONDS = {"a@1": 1.0, "b@1": 3.0}
COST = ObjectiveConfig(cost_weight=10.0)


def make_log(make: MakeDecision, count: int, *, has_forecasts: bool = True) -> list[LoggedOutcome]:
    """Equal shares; a is a little better and much dearer."""
    rng = np.random.default_rng(0)
    log = []
    for number in range(count):
        version = ("a@1", "b@1")[int(rng.integers(2))]
        decision = make(f"{number}", HALF, version)
        if has_forecasts:
            options = [
                replace(option, forecast=Forecast(COSTS[option.agent_version], SECONDS[option.agent_version], 0.0))
                for option in decision.alternatives
            ]
            decision = replace(decision, alternatives=tuple(options))
        factor = float(rng.uniform(0.5, 1.5))
        log.append(
            LoggedOutcome(
                decision,
                float(rng.random() < RATES[version]),
                factor * COSTS[version],
                factor * SECONDS[version],
            )
        )
    return log


def test_the_objective_takes_weighted_costs_off_the_reward(make_decision: MakeDecision) -> None:
    log = make_log(make_decision, 50)
    values, scale = weighed(log, ObjectiveConfig(cost_weight=10.0, latency_weight=0.1))
    for outcome, value in zip(log, values, strict=True):
        assert outcome.reward is not None
        assert value.reward is not None
        assert outcome.cost_usd is not None
        assert outcome.seconds is not None
        expected = outcome.reward - 10 * outcome.cost_usd - 0.1 * outcome.seconds
        assert 0 <= value.reward <= 1
        assert scale.lowest + scale.width * value.reward == pytest.approx(expected)
    assert weighed(log, ObjectiveConfig())[0] == log


def test_unknown_costs_are_the_forecast_ones_and_missing_rewards_stay_missing(make_decision: MakeDecision) -> None:
    [outcome] = make_log(make_decision, 1)
    [value], scale = weighed([replace(outcome, cost_usd=None, reward=0.5)], COST)
    assert value.reward is not None
    assert scale.lowest + scale.width * value.reward == pytest.approx(0.5 - 10 * COSTS[outcome.decision.chosen])
    assert weighed([replace(outcome, reward=None)], COST)[0][0].reward is None


def test_a_dear_policy_fails_by_cost_and_passes_by_quality(make_decision: MakeDecision) -> None:
    """By quality a gains .025, by the objective b gains (.83 − .7) / 2 = .065; the standard errors are .01."""
    log = make_log(make_decision, 2000)
    assert check_policy(log, always("a@1")).verdict == "pass"
    dear, cheap = check_policy(log, always("a@1"), weights=COST), check_policy(log, always("b@1"), weights=COST)
    assert (dear.verdict, cheap.verdict) == ("fail", "pass")
    assert "shown to be worse" in dear.reasons[0]
    assert cheap.gain.value == pytest.approx(0.065, abs=0.045), "4.5 standard errors: P < 1e-5"
    assert cheap.logged.value == pytest.approx(0.765, abs=0.045)
    for estimate in cheap.estimates:
        assert estimate.value == pytest.approx(0.83, abs=0.06), estimate.method
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low < 0.83 < estimate.high


def test_mean_cost_and_seconds_of_both_routings(make_decision: MakeDecision) -> None:
    check = check_policy(make_log(make_decision, 2000), always("b@1"))
    (cost, logged), (seconds, _) = check.used["cost"], check.used["seconds"]
    assert cost.value == pytest.approx(0.002, rel=0.05)
    assert logged.value == pytest.approx(0.011, rel=0.1)
    assert seconds.value == pytest.approx(3.0, rel=0.05)
    assert cost.low is not None
    assert cost.low <= 0.002
    nothing = [replace(outcome, cost_usd=None, seconds=None) for outcome in make_log(make_decision, 100)]
    assert check_policy(nothing, always("b@1")).used == {}
    assert mean_used(nothing, always("b@1"), "cost").value == pytest.approx(0.002)  # the forecasts


def test_a_new_policy_weighs_the_forecasts_of_the_log(make_decision: MakeDecision) -> None:
    log = make_log(make_decision, 1000)
    by_quality = check_new_policy(EpsilonGreedy(epsilon=0.1), log)
    by_cost = check_new_policy(EpsilonGreedy(epsilon=0.1), log, weights=COST)
    assert by_quality.shares["a"] > 0.6
    assert by_cost.shares["b"] > 0.9
    assert by_cost.verdict == "pass"


def test_decisions_without_forecasts_cannot_be_weighed(make_decision: MakeDecision) -> None:
    log = make_log(make_decision, 1000, has_forecasts=False)
    refused = check_new_policy(EpsilonGreedy(epsilon=0.1), log, weights=COST)
    assert refused.verdict == "refused"
    mixed = [
        *log,
        *(replace(o, decision=replace(o.decision, id=f"x{o.decision.id}")) for o in make_log(make_decision, 200)),
    ]
    assert check_new_policy(EpsilonGreedy(epsilon=0.1), mixed, weights=COST).gain.decisions == 200
