"""Linear contextual policies: LinUCB, and Thompson sampling whose versions share weights."""

from collections.abc import Sequence

import numpy as np

from upturn.arbiter.features import SIZE
from upturn.arbiter.policies.base import DEFAULT_FLOOR, Array, shared_equally
from upturn.arbiter.policies.normal import probability_largest
from upturn.arbiter.policies.regression import Regression, RegressionPolicy
from upturn.arbiter.policy import Candidate
from upturn.records import Decision, Task

LINEAR_THRESHOLD = 8.0
"""Of the change detectors. On tuning streams of 1,000 tasks, regret with drift was 77 at 12 and 61 at 7; without
drift 47 and 49."""


class LinUCB(RegressionPolicy):
    """The highest upper confidence limit ``θᵀx + alpha √(xᵀA⁻¹x)`` (Li et al. 2010, algorithm 1, disjoint)."""

    def __init__(self, *, floor: float = DEFAULT_FLOOR, alpha: float = 0.5) -> None:
        """``alpha``: weight of the standard deviation, at least 0."""
        if not alpha >= 0:
            raise ValueError(f"alpha must be at least 0, got {alpha!r}")
        super().__init__("lin_ucb", floor, 1.0, alpha=alpha)
        self.alpha = alpha

    def limits(self, features: Sequence[float] | Array, versions: Sequence[str]) -> Array:
        """Returns the upper confidence limit of each version, shape (K,)."""
        means, variances = self._predicted(np.asarray(features), tuple(versions), np.zeros(SIZE))
        return means + self.alpha * np.sqrt(variances)

    def _complete(self, name: str) -> Regression:
        return self._version(name)

    def _scores(self, task: Task, candidates: Sequence[Candidate]) -> Array:
        offered = self._offered(candidates)
        return shared_equally(self.limits(self._features_of(task), offered.versions) - offered.handicaps)

    def _update(self, decision: Decision, reward: float) -> None:
        if decision.features:  # a decision of a policy without features teaches only the counts
            self._version(decision.chosen).add(np.array(decision.features), 1.0, reward)
            self._refresh(decision.chosen)


class LinearThompson(RegressionPolicy):
    """Thompson sampling on regressions that share a prior mean, and restart on evidence of change.

    The probabilities are those of independent normal variables. What all versions share cancels in comparisons.
    """

    def __init__(
        self,
        *,
        floor: float = DEFAULT_FLOOR,
        precision: float = 6.0,
        noise: float = 0.17,
        threshold: float | None = LINEAR_THRESHOLD,
    ) -> None:
        """``precision``: weight of the shared prior mean, in outcomes with features of length 1.

        ``noise``: scale of the posterior's deviations. A reward of 0 or 1 has up to .5; a smaller one explores
        less, which had less regret in ``benchmarks routing``. ``threshold``: of the change detectors; None = none.
        """
        if not noise > 0:
            raise ValueError(f"noise must be above 0, got {noise!r}")
        super().__init__("linear_thompson", floor, precision, noise=noise, threshold=threshold)
        self.noise = noise
        self.threshold = threshold

    def _scores(self, task: Task, candidates: Sequence[Candidate]) -> Array:
        offered = self._offered(candidates)
        means, variances = self._predicted(self._features_of(task), offered.versions, self._prior())
        return probability_largest(means - offered.handicaps, self.noise * np.sqrt(variances))

    def _update(self, decision: Decision, reward: float) -> None:
        if not decision.features:  # a decision of a policy without features teaches only the counts
            return
        features, name = np.array(decision.features), decision.chosen
        predicted = float(self._weights(name, self._prior()) @ features)
        self._version(name).add(features, 1.0, reward)
        self._pooled.add(features, 1.0, reward)
        self._refresh(name)
        self._is_changed(name, predicted, reward, self.threshold)
