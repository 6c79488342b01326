"""Nearest neighbours: against a slow search, and a toy that no sum of effects describes."""

from collections.abc import Callable
from math import exp, sqrt

import numpy as np
import pytest

from tests.arbiter.policies.outcomes import AB, decision_of, task_of
from upturn.arbiter import LinearThompson, NearestNeighbours, RoutingOutcome
from upturn.arbiter.features import task_features
from upturn.arbiter.policies import LearningPolicy
from upturn.errors import RecordError

FAMILIES, TEXTS = ("mail", "sheet"), ("sum the column", "write a poem")


def test_the_posterior_is_that_of_a_slow_search() -> None:
    policy = NearestNeighbours(neighbours=5, capacity=30)
    generator = np.random.default_rng(0)
    history = []
    for number in range(70):
        task = task_of(f"f{generator.integers(4)}", f"word{generator.integers(6)} word{generator.integers(6)}")
        version, reward = ("a@1", "b@1")[number % 2], float(generator.integers(3)) / 2
        decision = decision_of(f"d{number}", version, task, policy)
        policy.learn(decision, RoutingOutcome(decision.id, reward))
        history.append((version, decision.features, reward))
    features = task_features(task_of("f1", "word2 word3"))
    for version in ("a@1", "b@1"):
        rewards = [reward for name, _, reward in history if name == version]
        overall = (sum(reward for *_, reward in history) + 1) / 72
        mean = (sum(rewards) + 2 * overall) / (len(rewards) + 2)
        kept = [(other, reward) for name, other, reward in history if name == version][-30:]
        distances = sorted(
            (sum((a - b) ** 2 for a, b in zip(other, features, strict=True)), reward) for other, reward in kept
        )
        weights = [exp(-distance / (2 * 0.7**2)) for distance, _ in distances[:5]]
        total = 2 + sum(weights)
        posterior = policy.posterior(features, version)
        assert posterior.alpha + posterior.beta == pytest.approx(total, rel=1e-5)
        nearest = sum(weight * reward for weight, (_, reward) in zip(weights, distances[:5], strict=True))
        # Ties in distance may be cut differently, by at most one weight.
        assert posterior.alpha == pytest.approx(2 * mean + nearest, abs=max(weights) + 1e-5)
    assert sqrt(2) / 2 > 0.7  # another family alone is farther than the bandwidth


@pytest.mark.parametrize(("make", "low", "high"), [(NearestNeighbours, 0.9, 1.0), (LinearThompson, 0.2, 0.8)])
def test_it_learns_an_interaction_that_a_linear_policy_cannot(
    make: Callable[[], LearningPolicy], low: float, high: float
) -> None:
    policy = make()
    for number in range(60):
        for family in FAMILIES:
            for text in TEXTS:
                is_a = (family == "mail") == (text == TEXTS[0])
                for version in ("a@1", "b@1"):
                    decision = decision_of(
                        f"{family}{text}{version}{number}", version, task_of(family, text), policy
                    )
                    policy.learn(decision, RoutingOutcome(decision.id, float((version == "a@1") == is_a)))
    for family in FAMILIES:
        for text in TEXTS:
            best = (family == "mail") != (text == TEXTS[0])
            assert low <= policy.probabilities(task_of(family, text), AB)[best] <= high


def test_damaged_states_and_impossible_sizes_are_refused() -> None:
    policy = NearestNeighbours()
    decision = decision_of("d", "a@1", task_of(), policy)
    policy.learn(decision, RoutingOutcome("d", 1.0))
    with pytest.raises(RecordError, match=r"2 outcomes need 130 finite numbers, got 65"):
        policy.restore(policy.state().replace('\\"outcomes\\":1', '\\"outcomes\\":2'))
    with pytest.raises(ValueError, match=r"neighbours must be from 1 to capacity=5, got 9"):
        NearestNeighbours(neighbours=9, capacity=5)
