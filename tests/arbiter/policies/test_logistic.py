"""Logistic Thompson sampling: the posterior against independent computations, and a toy with a known answer."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, special

from tests.arbiter.policies.outcomes import AB, decision_of, task_of, teach
from upturn.arbiter import LogisticThompson, RoutingOutcome
from upturn.arbiter.features import SIZE
from upturn.arbiter.policies.regression import Regression


def test_one_outcome_gives_the_newton_step_worked_by_hand() -> None:
    policy = LogisticThompson(precision=2.0)
    first = tuple(float(index == 0) for index in range(SIZE))
    decision = replace(decision_of("d", "a@1", task_of(), policy), features=first)
    policy.learn(decision, RoutingOutcome("d", 1.0))
    # Shared: A = 1 + 1/4, b = 1/2, mean .4. Version: A = 2 + 1/4, b = 1/2, θ = (.5 + 2 · .4) / 2.25 = .5778.
    means, deviations = policy.rates(first, ["a@1", "b@1"])
    variance = np.array([1 / 2.25, 1 / 2])
    odds = np.array([1.3 / 2.25, 0.4])
    rates = special.expit(odds / np.sqrt(1 + np.pi / 8 * variance))
    assert means == pytest.approx(rates, rel=1e-6)
    slope = rates * (1 - rates)
    assert deviations == pytest.approx(slope * np.sqrt(variance / (1 + np.pi / 8 * variance)), rel=1e-6)


def test_means_and_deviations_are_near_those_of_an_integration() -> None:
    points = np.linspace(-8, 8, 4001)
    density = np.exp(-points * points / 2) / np.sqrt(2 * np.pi)
    policy = LogisticThompson(precision=1.0)
    for scale in (0.3, 1.0, 2.0):
        features = [scale] + [0.0] * (SIZE - 1)
        means, deviations = policy.rates(features, ["a@1"])
        rates = special.expit(scale * points)
        assert means[0] == pytest.approx(np.trapezoid(rates * density, points), abs=1e-9)
        expected = np.trapezoid((rates - 0.5) ** 2 * density, points) ** 0.5
        assert deviations[0] == pytest.approx(expected, rel=0.03)


def test_probabilities_are_those_of_draws_that_agree() -> None:
    policies = [LogisticThompson(agreement=agreement, floor=0.01) for agreement in (1, 3)]
    for policy in policies:
        teach(policy, [("mail", "a@1", 1.0), ("mail", "b@1", 0.0), ("mail", "a@1", 0.5)])
    single, three = ((policy.probabilities(task_of(), AB)[0] - 0.005) / 0.99 for policy in policies)
    assert three == pytest.approx(single**3 / (single**3 + (1 - single) ** 3), rel=1e-9)


def test_the_posterior_is_near_the_exact_mode_and_curvature() -> None:
    generator = np.random.default_rng(1)
    truth = generator.normal(0, 0.7, SIZE)
    rows = np.zeros((1500, SIZE))
    rows[:, :5] = generator.normal(0, 1, (1500, 5))
    rewards = (generator.random(1500) < special.expit(rows @ truth)).astype(float)
    policy = LogisticThompson(precision=1.0, threshold=None)
    for number, (row, reward) in enumerate(zip(rows, rewards, strict=True)):
        decision = replace(decision_of(f"d{number}", "a@1", task_of(), policy), features=tuple(row.tolist()))
        policy.learn(decision, RoutingOutcome(decision.id, float(reward)))
    prior = policy._prior()

    def loss(weights: np.ndarray) -> float:
        odds = rows @ weights
        return float(np.logaddexp(0, odds).sum() - rewards @ odds + ((weights - prior) ** 2).sum() / 2)

    mode = optimize.minimize(loss, np.zeros(SIZE), method="BFGS").x
    assert policy._weights("a@1", prior)[:5] == pytest.approx(mode[:5], abs=0.03)
    rates = special.expit(rows @ mode)
    exact = np.linalg.inv(np.eye(SIZE) + (rows * (rates * (1 - rates))[:, None]).T @ rows)
    assert np.diag(policy._versions["a@1"].inverse)[:5] == pytest.approx(np.diag(exact)[:5], rel=0.08)


def test_it_learns_from_words_and_a_new_version_starts_at_what_versions_share() -> None:
    policy = LogisticThompson()
    outcomes = [("sum the column", "a@1"), ("write a poem", "b@1")]
    for number in range(60):
        for word, good in outcomes:
            for version in ("a@1", "b@1"):
                task = task_of("mail", word)
                decision = decision_of(f"{word}{version}{number}", version, task, policy)
                policy.learn(decision, RoutingOutcome(decision.id, float(version == good)))
    assert policy.probabilities(task_of("mail", "sum the column"), AB)[0] > 0.95
    assert policy.probabilities(task_of("mail", "write a poem"), AB)[0] < 0.05
    shared, _ = policy.rates(policy.features(task_of("mail", "write a poem")), ["new@1"])
    assert shared[0] == pytest.approx(0.5, abs=0.1)


def test_a_collapse_restarts_the_version() -> None:
    policy = LogisticThompson()
    teach(policy, [("mail", "a@1", 1.0), ("mail", "b@1", 0.5)] * 60)
    assert policy.probabilities(task_of(), AB)[0] > 0.95
    teach(policy, [("mail", "a@1", 0.0)] * 12)
    assert policy.probabilities(task_of(), AB)[0] < 0.3


def test_a_change_of_one_version_weakens_the_evidence_on_the_others() -> None:
    policy = LogisticThompson()
    features = policy.features(task_of())
    teach(policy, [("mail", "a@1", 1.0), ("mail", "b@1", 0.6)] * 60)
    means, deviations = policy.rates(features, ["b@1"])
    teach(policy, [("mail", "a@1", 0.0)] * 12)
    after, wider = policy.rates(features, ["b@1"])
    assert after[0] == pytest.approx(means[0], abs=0.1)
    assert wider[0] > 2 * deviations[0]


def test_weakened_evidence_keeps_the_weights() -> None:
    generator = np.random.default_rng(0)
    regression, prior = Regression(2.0), generator.normal(size=SIZE)
    for _ in range(50):
        regression.add(generator.normal(size=SIZE), 0.2, float(generator.normal()))
    weights = regression.inverse @ (regression.moment + 2.0 * prior)
    information = np.linalg.inv(regression.inverse)
    regression.weaken(0.25, 2.0, prior)
    assert regression.inverse @ (regression.moment + 2.0 * prior) == pytest.approx(weights, abs=1e-8)
    expected = 2.0 * np.eye(SIZE) + 0.25 * (information - 2.0 * np.eye(SIZE))
    assert np.linalg.inv(regression.inverse) == pytest.approx(expected, abs=1e-6)


def test_agreement_must_be_positive() -> None:
    with pytest.raises(ValueError, match="agreement must be at least 1, got 0"):
        LogisticThompson(agreement=0)
