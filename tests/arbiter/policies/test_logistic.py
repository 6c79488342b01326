"""Logistic Thompson sampling: the posterior against independent computations, and a toy with a known answer."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, special

from tests.arbiter.policies.outcomes import AB, decision_of, task_of, teach
from upturn.arbiter import LogisticThompson, RoutingOutcome
from upturn.arbiter.features import SIZE


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
    assert deviations == pytest.approx(rates * (1 - rates) * np.sqrt(variance), rel=1e-6)


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


def test_a_scale_must_be_positive() -> None:
    with pytest.raises(ValueError, match="scale must be above 0, got 0"):
        LogisticThompson(scale=0)
