"""Gaussian Thompson sampling: the posterior, against a grid of means and variances, and graded rewards."""

import numpy as np
import pytest
from scipy import stats

from tests.arbiter.policies.outcomes import AB, task_of, teach
from upturn.arbiter import GaussianThompson, HierarchicalThompson


def test_the_posterior_is_that_of_a_grid_of_means_and_variances() -> None:
    policy = GaussianThompson()
    rewards = [0.61, 0.55, 0.70, 0.64]
    teach(policy, [("mail", "a@1", reward) for reward in rewards])
    # The prior: one outcome at the mean of all rewards and .5, and three outcomes' worth of the variance within.
    prior = (0.5 + sum(rewards)) / 5
    variance = (1 / 12 + 4 * np.var(rewards)) / 5
    mean, tau = np.meshgrid(np.linspace(0.2, 1.0, 801), np.exp(np.linspace(-11, 0, 401)), indexing="ij")
    log = stats.norm.logpdf(mean, prior, np.sqrt(tau)) + stats.invgamma.logpdf(tau, 1.5, scale=1.5 * variance)
    log += sum(stats.norm.logpdf(reward, mean, np.sqrt(tau)) for reward in rewards) + np.log(tau)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    posterior = policy.posterior("mail", "a@1")
    expected = float((weights * mean).sum())
    assert posterior.location == pytest.approx(expected, abs=1e-4)
    assert posterior.deviation == pytest.approx(float(((weights * (mean - expected) ** 2).sum()) ** 0.5), rel=2e-3)
    belief = policy.belief("mail", "a@1")
    assert (belief.mean, belief.deviation) == pytest.approx((posterior.location, posterior.deviation), rel=1e-9)


def test_graded_rewards_with_a_small_spread_separate_agents_early() -> None:
    generator = np.random.default_rng(0)
    outcomes = []
    for _ in range(10):
        for version, mean in (("a@1", 0.55), ("b@1", 0.50)):
            outcomes.append(("mail", version, float(mean + generator.normal(0, 0.02))))
    gaussian, beta = GaussianThompson(), HierarchicalThompson()
    teach(gaussian, outcomes)
    teach(beta, outcomes)
    assert gaussian.probabilities(task_of(), AB)[0] > 0.98
    assert beta.probabilities(task_of(), AB)[0] < 0.75


def test_handicaps_are_subtracted_from_rewards() -> None:
    policy = GaussianThompson()
    teach(policy, [("mail", "a@1", 0.9), ("mail", "b@1", 0.8), ("mail", "a@1", 0.86), ("mail", "b@1", 0.84)] * 20)
    dear = (AB[0].__class__("a", "a@1", handicap=0.1), AB[1])
    assert policy.probabilities(task_of(), AB)[0] > 0.9
    assert policy.probabilities(task_of(), dear)[0] < 0.1


def test_a_window_and_a_discount_exclude_each_other() -> None:
    with pytest.raises(ValueError, match=r"discount=0\.9 and window=5 both forget"):
        GaussianThompson(discount=0.9, window=5)
