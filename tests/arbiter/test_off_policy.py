"""Off-policy estimates against arithmetic, closed-form errors and full-information truth."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import stdtrit

from upturn.arbiter.off_policy import (
    LoggedOutcome,
    all_estimates,
    always,
    direct_method,
    doubly_robust,
    inverse_propensity,
    policy_gain,
    running_means,
    self_normalised,
    switch_doubly_robust,
)
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


def two_families(make: MakeDecision) -> list[LoggedOutcome]:
    """Two families, in which a@1 succeeds always and never, with weights 2 (50 times) and 10 (10 times)."""
    outcomes = [LoggedOutcome(make(f"a{i}", {"a@1": 0.5, "b@1": 0.5}, "a@1"), 1.0) for i in range(50)]
    shares = {"a@1": 0.1, "b@1": 0.9}
    return outcomes + [LoggedOutcome(make(f"b{i}", shares, "a@1", family="chat"), 0.0) for i in range(10)]


def test_an_interval_uses_the_standard_error_where_it_says_more_than_the_weights(
    make_decision: MakeDecision,
) -> None:
    estimate = self_normalised(two_families(make_decision), always("a@1"))
    value = 100 / 200
    error = ((50 * 4 * (1 - value) ** 2 + 10 * 100 * value**2) * 60 / 59) ** 0.5 / 200
    samples = value * (1 - value) / error**2
    assert samples < estimate.effective_samples
    assert estimate.standard_error == pytest.approx(error)
    # Σ w² = 50 · 4 + 10 · 100 and Σ w⁴ = 50 · 16 + 10 · 10⁴ give 14.286 draws, less 1, times 2.5: t = 2.0340.
    quantile = float(stdtrit((1200**2 / 100_800 - 1) * 2.5, 0.975))
    assert quantile == pytest.approx(2.0340, abs=1e-4)
    half = quantile * (0.25 / samples + quantile**2 / 4 / samples**2) ** 0.5 / (1 + quantile**2 / samples)
    assert (estimate.low, estimate.high) == pytest.approx((0.5 - half, 0.5 + half))


def test_graded_rewards_have_short_intervals_and_few_of_them_wider_ones(make_decision: MakeDecision) -> None:
    """Rewards of .4 and .6, half each: the standard error of n equal weights is .1/√(n − 1), not .5/√n."""
    shares = {"a@1": 0.5, "b@1": 0.5}
    for count, low, high in ((400, 0.009, 0.0115), (20, 0.04, 0.08)):
        outcomes = [LoggedOutcome(make_decision(f"{i}", shares, "a@1"), 0.4 + 0.2 * (i % 2)) for i in range(count)]
        estimate = self_normalised(outcomes, always("a@1"))
        assert estimate.value == pytest.approx(0.5)
        assert estimate.low is not None
        assert low < 0.5 - estimate.low < high
    same = [LoggedOutcome(make_decision(f"{i}", shares, "a@1"), 0.5) for i in range(100)]
    constant = self_normalised(same, always("a@1"))
    assert constant.low is not None
    assert 0.0 < 0.5 - constant.low < 0.02, "equal rewards still have a width"


def test_the_direct_method_by_hand(make_decision: MakeDecision) -> None:
    """Means by family: mail a 2/3, b 0; chat b 1. Target .5 : .5, and a@1 in chat has its mean in mail."""
    shares = {"a@1": 0.5, "b@1": 0.5}
    outcomes = [
        LoggedOutcome(make_decision("1", shares, "a@1"), 1.0),
        LoggedOutcome(make_decision("2", shares, "a@1"), 1.0),
        LoggedOutcome(make_decision("3", shares, "a@1"), 0.0),
        LoggedOutcome(make_decision("4", shares, "b@1"), 0.0),
        LoggedOutcome(make_decision("5", shares, "b@1", family="chat"), 1.0),
    ]
    mail, chat = 0.5 * 2 / 3, 0.5 * 2 / 3 + 0.5 * 1.0
    estimate = direct_method(outcomes, lambda _decision: shares)
    assert estimate.value == pytest.approx((4 * mail + chat) / 5)
    # Each decision weighs its cell's mass in the target over its number: mail a (.5 · 4)/3, mail b 2, chat b .5.
    weights = np.array([2 / 3, 2 / 3, 2 / 3, 2.0, 0.5])
    assert estimate.max_weight == pytest.approx(2.0)
    assert estimate.effective_samples == pytest.approx(weights.sum() ** 2 / (weights @ weights))
    scores = np.array([mail, mail, mail, mail, chat]) + weights * np.array([1 / 3, 1 / 3, -2 / 3, 0.0, 0.0])
    assert estimate.standard_error == pytest.approx(float(scores.std(ddof=1)) / 5**0.5)


def test_the_direct_method_does_not_know_what_was_never_tried(make_decision: MakeDecision) -> None:
    shares = {"a@1": 0.5, "b@1": 0.5}
    outcomes = [LoggedOutcome(make_decision(f"a{i}", shares, "a@1"), 1.0) for i in range(50)]
    outcomes += [LoggedOutcome(make_decision(f"b{i}", shares, "b@1"), float(i < 25)) for i in range(50)]
    outcomes += [LoggedOutcome(make_decision(f"c{i}", shares, "b@1", family="chat"), 1.0) for i in range(100)]
    estimate = direct_method(outcomes, always("a@1"))
    assert estimate.value == pytest.approx(1.0), "a@1 has no outcome in chat, but its others succeeded"
    assert estimate.low is not None
    assert estimate.low < 0.5, "half of the decisions are chat, where a@1 might always fail"


def test_switch_dr_trusts_the_model_above_the_limit(make_decision: MakeDecision) -> None:
    outcomes = two_families(make_decision)
    target = always("a@1")

    def model(decision: Decision, _version: str) -> float:
        return 0.9 if decision.family == "mail" else 0.3

    below = switch_doubly_robust(outcomes, target, model, max_weight=5.0)
    assert below.value == pytest.approx((50 * (0.9 + 2 * 0.1) + 10 * 0.3) / 60)
    at = switch_doubly_robust(outcomes, target, model, max_weight=10.0)
    robust = doubly_robust(outcomes, target, model)
    assert at.value == robust.value == pytest.approx((50 * (0.9 + 2 * 0.1) + 10 * (0.3 - 10 * 0.3)) / 60)
    assert (at.method, robust.method) == ("switch_dr", "dr")
    assert (below.low, below.high) == (robust.low, robust.high), "its standard error does not include the bias"


def test_the_gain_is_the_difference_of_two_dr_estimates_and_0_for_the_logged_routing(
    make_decision: MakeDecision,
) -> None:
    rng = np.random.default_rng(3)
    outcomes = []
    for index in range(300):
        shares = {"a@1": 0.2, "b@1": 0.8} if index % 2 else {"a@1": 0.7, "b@1": 0.3}
        chosen = str(rng.choice(list(shares), p=list(shares.values())))
        outcomes.append(LoggedOutcome(make_decision(f"{index}", shares, chosen), float(rng.random() < 0.6)))
    model = running_means(outcomes)
    same = policy_gain(outcomes, logged_shares, model)
    assert (same.value, same.standard_error, same.low, same.high) == (0.0, 0.0, 0.0, 0.0)
    gain = policy_gain(outcomes, always("a@1"), model)
    new, old = doubly_robust(outcomes, always("a@1"), model), doubly_robust(outcomes, logged_shares, model)
    assert new.value is not None and old.value is not None and gain.low is not None and gain.high is not None
    assert gain.value == pytest.approx(new.value - old.value)
    assert gain.low < (gain.value or 0.0) < gain.high


def logged_shares(decision: Decision) -> dict[str, float]:
    return {option.agent_version: option.probability for option in decision.alternatives}


def test_all_estimates_equal_their_formulas_in_plain_python(make_decision: MakeDecision) -> None:
    """A random log with episodes, two families, missing rewards and a target that depends on the family."""
    rng = np.random.default_rng(11)
    outcomes: list[LoggedOutcome] = []
    episodes: dict[str, tuple[dict[str, float], str]] = {}
    for index in range(200):
        family, episode = ("mail", "chat")[index % 2], None if index % 3 else f"e{index % 40}"
        shares = {"a@1": 0.3, "b@1": 0.7} if rng.random() < 0.5 else {"a@1": 0.8, "b@1": 0.2}
        chosen = str(rng.choice(list(shares), p=list(shares.values())))
        if episode is not None:
            shares, chosen = episodes.setdefault(episode, (shares, chosen))
        decision = make_decision(f"{index}", shares, chosen, family=family, episode=episode)
        reward = None if rng.random() < 0.1 else float(rng.random())
        outcomes.append(LoggedOutcome(decision, reward))

    def target(decision: Decision) -> dict[str, float]:
        return {"a@1": 0.9, "b@1": 0.1} if decision.family == "mail" else {"a@1": 0.25, "b@1": 0.75}

    model = running_means(outcomes)
    first: dict[str, Decision] = {}
    rows = []  # weight, reward, the target's prediction, the chosen version's, the logged routing's
    for decision, reward in ((outcome.decision, outcome.reward) for outcome in outcomes):
        if reward is None:
            continue
        start = first.setdefault(decision.episode or decision.id, decision)
        shares = target(start)
        weight = shares[start.chosen] / start.propensity
        expected = sum(share * model(decision, version) for version, share in shares.items())
        logged_value = sum(
            option.probability * model(decision, option.agent_version) for option in decision.alternatives
        )
        rows.append((weight, reward, expected, model(decision, decision.chosen), logged_value))
    count = len(rows)
    ips, snips, _, robust, switch = all_estimates(outcomes, target, model)
    assert ips.value == pytest.approx(sum(w * r for w, r, *_ in rows) / count)
    assert snips.value == pytest.approx(sum(w * r for w, r, *_ in rows) / sum(w for w, *_ in rows))
    assert robust.value == pytest.approx(sum(e + w * (r - q) for w, r, e, q, _ in rows) / count)
    assert switch.value == robust.value, "no weight is above 10"
    gain = policy_gain(outcomes, target, model)
    assert gain.value == pytest.approx(sum(e - b + (w - 1) * (r - q) for w, r, e, q, b in rows) / count)
    draws: dict[str, float] = {}
    for (w, r, e, q, _), outcome in zip(rows, [o for o in outcomes if o.reward is not None], strict=True):
        name = outcome.decision.episode or outcome.decision.id
        draws[name] = draws.get(name, 0.0) + e + w * (r - q) - (robust.value or 0.0)
    spread = sum(total**2 for total in draws.values()) * len(draws) / (len(draws) - 1)
    assert robust.standard_error == pytest.approx(spread**0.5 / count)
    assert (robust.decisions, robust.missing) == (count, 200 - count)


def test_running_means_by_hand_and_without_the_episodes_outcomes(make_decision: MakeDecision) -> None:
    shares = {"a@1": 0.5, "b@1": 0.5}
    names = [("1", "a@1", 1.0, None), ("2", "a@1", 1.0, "e"), ("3", "a@1", 0.0, "e"), ("4", "b@1", None, None)]
    outcomes = [
        LoggedOutcome(make_decision(name, shares, chosen, episode=episode), reward)
        for name, chosen, reward, episode in names
    ]
    outcomes.append(LoggedOutcome(make_decision("5", shares, "a@1"), 0.0))
    model = running_means(outcomes)
    predicted = [model(outcome.decision, "a@1") for outcome in outcomes]
    assert predicted == pytest.approx([0.5, 1.5 / 2, 1.5 / 2, 2.5 / 4, 2.5 / 4])
    assert [model(outcome.decision, "b@1") for outcome in outcomes] == [0.5] * 5
    assert model(outcomes[0].decision, "c@1") == 0.5


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
    """10 of 10: the limit is n/(n + t²) = 10/(10 + 2.0713²), with (10 − 1) · 2.5 degrees of freedom."""
    estimate = self_normalised(logged(make_decision, 0.5, 10, 20), always("a@1"))
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((1.0, 0.69980, 1.0), abs=1e-4)


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
