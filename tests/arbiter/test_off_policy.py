"""Off-policy estimates against arithmetic, closed-form errors and full-information truth."""

from collections.abc import Callable

import numpy as np
import pytest

from upturn.arbiter.off_policy import LoggedOutcome, always, doubly_robust, inverse_propensity, self_normalised
from upturn.records import Decision

MakeDecision = Callable[..., Decision]


def logged(make: MakeDecision, share: float, successes: int, n: int) -> list[LoggedOutcome]:
    """Returns n decisions; exactly ``share`` chose a@1, with exactly ``successes`` successes; b@1 always fails."""
    chosen = round(share * n)
    shares = {"a@1": share, "b@1": 1 - share}
    outcomes = [LoggedOutcome(make(f"a{i}", shares, "a@1"), float(i < successes)) for i in range(chosen)]
    return outcomes + [LoggedOutcome(make(f"b{i}", shares, "b@1"), 0.0) for i in range(n - chosen)]


def test_ips_and_its_closed_form_error(make_decision: MakeDecision) -> None:
    # Target a@1, logged with π = .2, true p = .6 in exactly 1,000 of 5,000: SE = sqrt((p/π − p²)/n).
    estimate = inverse_propensity(logged(make_decision, 0.2, 600, 5000), always("a@1"))
    assert estimate.value == pytest.approx(0.6)
    assert estimate.standard_error == pytest.approx(((0.6 / 0.2 - 0.36) / 5000) ** 0.5, rel=2e-4)  # n against n − 1
    # The interval is that of SNIPS: Wilson's for .6 of the 1,000 effective samples.
    assert (estimate.low, estimate.high) == pytest.approx((0.56931, 0.62993), abs=1e-4)
    assert estimate.effective_samples == pytest.approx(1000)
    assert estimate.max_weight == pytest.approx(5)
    assert estimate.refusal == ""


def test_snips_and_its_linearised_error(make_decision: MakeDecision) -> None:
    # Constant weights: the estimate is the plain mean of what the target chose, SE = sqrt(p(1 − p)/(π n)).
    estimate = self_normalised(logged(make_decision, 0.2, 600, 5000), always("a@1"))
    assert estimate.value == pytest.approx(0.6)
    assert estimate.standard_error == pytest.approx((0.24 / 1000) ** 0.5, rel=2e-4)


def test_dr_is_ips_for_a_zero_model_and_exact_for_a_perfect_one(make_decision: MakeDecision) -> None:
    outcomes = logged(make_decision, 0.2, 600, 5000)
    ips = inverse_propensity(outcomes, always("a@1"))
    zero = doubly_robust(outcomes, always("a@1"), lambda _decision, _version: 0.0)
    assert (zero.value, zero.standard_error) == (ips.value, ips.standard_error)
    rewards = {outcome.decision.id: outcome.reward or 0.0 for outcome in outcomes}
    perfect = doubly_robust(outcomes, always("a@1"), lambda decision, _version: rewards[decision.id])
    assert perfect.value == pytest.approx(600 / 5000)  # every residual is zero: the mean of the predictions


def test_estimates_cover_the_true_value(make_decision: MakeDecision) -> None:
    generator = np.random.default_rng(5)
    truth = {"a@1": 0.7, "b@1": 0.4, "c@1": 0.1}
    target = {"a@1": 0.6, "b@1": 0.4}
    value = 0.6 * 0.7 + 0.4 * 0.4
    hits = 0
    for run in range(40):
        outcomes = []
        for index in range(400):
            share = {"a@1": 0.2, "b@1": 0.3, "c@1": 0.5} if index % 2 else {"a@1": 0.5, "b@1": 0.4, "c@1": 0.1}
            chosen = str(generator.choice(list(share), p=list(share.values())))
            decision = make_decision(f"{run}-{index}", share, chosen)
            outcomes.append(LoggedOutcome(decision, float(generator.random() < truth[chosen])))
        for estimator in (inverse_propensity, self_normalised):
            estimate = estimator(outcomes, lambda _decision: target)
            assert estimate.low is not None and estimate.high is not None
            hits += estimate.low <= value <= estimate.high
    assert hits >= 66, "95 % intervals, 40 independent pairs: 65 or fewer of 80 cover with P < 1e-3"


def test_an_interval_uses_the_standard_error_where_it_says_more_than_the_weights(
    make_decision: MakeDecision,
) -> None:
    """Two families, in which the version succeeds always and never, with weights 2 and 10."""
    outcomes = [LoggedOutcome(make_decision(f"a{i}", {"a@1": 0.5, "b@1": 0.5}, "a@1"), 1.0) for i in range(50)]
    outcomes += [LoggedOutcome(make_decision(f"b{i}", {"a@1": 0.1, "b@1": 0.9}, "a@1"), 0.0) for i in range(10)]
    estimate = self_normalised(outcomes, always("a@1"))
    value = 100 / 200
    error = ((50 * 4 * (1 - value) ** 2 + 10 * 100 * value**2) * 60 / 59) ** 0.5 / 200
    samples = value * (1 - value) / error**2
    assert samples < estimate.effective_samples
    assert estimate.standard_error == pytest.approx(error)
    half = 1.959964 * (0.25 / samples + 1.959964**2 / 4 / samples**2) ** 0.5 / (1 + 1.959964**2 / samples)
    assert (estimate.low, estimate.high) == pytest.approx((0.5 - half, 0.5 + half))


def test_missing_rewards_are_excluded_and_counted(make_decision: MakeDecision) -> None:
    outcomes = logged(make_decision, 0.5, 200, 800)
    outcomes += [LoggedOutcome(make_decision(f"m{i}", {"a@1": 0.5, "b@1": 0.5}, "a@1"), None) for i in range(7)]
    estimate = inverse_propensity(outcomes, always("a@1"))
    assert (estimate.decisions, estimate.missing) == (800, 7)
    assert estimate.value == pytest.approx(0.5)


def test_estimates_without_support_are_refused(make_decision: MakeDecision) -> None:
    outcomes = logged(make_decision, 0.5, 200, 800)
    outcomes.append(LoggedOutcome(make_decision("x", {"b@1": 1.0, "a@1": 0.0}, "b@1"), 1.0))
    for estimate in (inverse_propensity(outcomes, always("a@1")), self_normalised(outcomes, always("a@1"))):
        assert (estimate.value, estimate.standard_error, estimate.low, estimate.high) == (None, None, None, None)
        assert estimate.refusal.startswith("no support: in 1 of 801 draws")
    assert inverse_propensity(outcomes, always("b@1")).refusal == ""
    assert "no support: in 801 of 801" in inverse_propensity(outcomes, always("never@1")).refusal


def test_large_weights_and_few_effective_samples_widen_the_interval(make_decision: MakeDecision) -> None:
    """A refusal would depend on how often the log chose the version, and so on how well it did."""
    few = inverse_propensity(logged(make_decision, 0.5, 6, 20), always("a@1"))
    assert few.value == pytest.approx(0.6)
    assert (few.effective_samples, few.refusal) == (10, "")
    assert few.low is not None and few.high is not None
    assert few.high - few.low > 0.4
    heavy = logged(make_decision, 0.5, 200, 800)
    heavy.append(LoggedOutcome(make_decision("x", {"a@1": 0.009, "b@1": 0.991}, "a@1"), 1.0))
    light, heavier = (inverse_propensity(outcomes, always("a@1")) for outcomes in (heavy[:-1], heavy))
    assert heavier.refusal == ""
    assert (heavier.high or 0) - (heavier.low or 0) > (light.high or 0) - (light.low or 0)


def test_a_target_that_was_never_chosen_has_no_estimate(make_decision: MakeDecision) -> None:
    never = [LoggedOutcome(make_decision(f"b{i}", {"a@1": 0.5, "b@1": 0.5}, "b@1"), 1.0) for i in range(3)]
    for estimator in (inverse_propensity, self_normalised):
        assert estimator(never, always("a@1")).refusal.startswith("no decision chose what the target chooses")
    assert inverse_propensity([], always("a@1")).refusal == "no decision has an evaluated outcome"


def test_equal_rewards_have_an_interval(make_decision: MakeDecision) -> None:
    """10 of 10: Wilson's interval is [.7225, 1]."""
    estimate = self_normalised(logged(make_decision, 0.5, 10, 20), always("a@1"))
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((1.0, 0.7225, 1.0), abs=1e-4)


def test_decisions_of_an_episode_count_as_one_draw(make_decision: MakeDecision) -> None:
    shares = {"a@1": 0.5, "b@1": 0.5}
    episodes = [
        LoggedOutcome(make_decision(f"{i}-{turn}", shares, "ab"[i % 2] + "@1", episode=f"e{i}"), float(i % 4 == 0))
        for i in range(400)
        for turn in range(3)
    ]
    single = [
        LoggedOutcome(make_decision(f"{i}", shares, "ab"[i % 2] + "@1"), float(i % 4 == 0)) for i in range(400)
    ]
    episode_estimate, single_estimate = (
        inverse_propensity(episodes, always("a@1")),
        inverse_propensity(single, always("a@1")),
    )
    assert episode_estimate.value == pytest.approx(single_estimate.value)
    assert episode_estimate.standard_error == pytest.approx(single_estimate.standard_error)
    assert episode_estimate.effective_samples == single_estimate.effective_samples == 200
    assert (episode_estimate.decisions, single_estimate.decisions) == (1200, 400)


def test_targets_that_are_not_a_distribution_are_rejected(make_decision: MakeDecision) -> None:
    outcomes = logged(make_decision, 0.5, 200, 800)
    for target in ({"a@1": 0.5}, {"a@1": 1.5, "b@1": -0.5}):
        with pytest.raises(ValueError, match="sum to 1"):
            inverse_propensity(outcomes, lambda _decision, target=target: target)  # type: ignore[misc]
