"""Thompson sampling on logistic regressions whose versions share weights.

A regression has a normal posterior of its weights, updated by one Newton step per outcome from the current estimate
(the extended Kalman filter; Fahrmeir 1992): with odds ``z = θᵀx``, rate ``p = σ(z)`` and weight ``w = p (1 − p)``,
``A += w x xᵀ`` and ``b += (w z + r − p) x``, and ``θ = A⁻¹ (b + precision · prior mean)``.
"""

from collections.abc import Sequence
from math import exp, pi

import numpy as np
from scipy import special

from upturn.arbiter.policies.base import DEFAULT_FLOOR, Array, handicaps
from upturn.arbiter.policies.normal import probability_largest
from upturn.arbiter.policies.regression import Regression, RegressionPolicy
from upturn.arbiter.policy import Candidate
from upturn.records import Decision, Task

LOGISTIC_THRESHOLD = 8.0
"""Of the change detectors."""
MIN_WEIGHT = 0.01
"""Weight of an outcome whose rate is predicted as nearly 0 or 1, so that one surprise does not move weights far."""
_MAX_ODDS = 30.0


class LogisticThompson(RegressionPolicy):
    """Thompson sampling on logistic regressions that share a prior mean, and restart on evidence of change.

    The probabilities are those of independent normal variables with the means of the rates, and the deviations of
    the odds times the slope of the rate (delta method).
    """

    def __init__(
        self,
        *,
        floor: float = DEFAULT_FLOOR,
        precision: float = 3.0,
        scale: float = 0.4,
        threshold: float | None = LOGISTIC_THRESHOLD,
    ) -> None:
        """``precision``: of a version's weights around the shared prior mean.

        ``scale``: factor on the posterior's deviations; below 1 explores less than Thompson sampling, which had
        less regret in ``benchmarks routing``. ``threshold``: of the change detectors; None = none.
        """
        if not scale > 0:
            raise ValueError(f"scale must be above 0, got {scale!r}")
        super().__init__("logistic_thompson", floor, precision, scale=scale, threshold=threshold)
        self.scale = scale
        self.threshold = threshold

    def _scores(self, task: Task, candidates: Sequence[Candidate]) -> Array:
        names = tuple(candidate.version for candidate in candidates)
        means, deviations = self.rates(self.features(task), names)
        return probability_largest(means - handicaps(candidates), self.scale * deviations)

    def rates(self, features: Sequence[float], versions: Sequence[str]) -> tuple[Array, Array]:
        """Returns means and deviations of the versions' success rates, each (K,), before the scale.

        The mean is ``σ(z / √(1 + π v / 8))`` for odds z of variance v (MacKay 1992)."""
        odds, variances = self._predicted(np.array(features), tuple(versions), self._prior())
        means = special.expit(odds / np.sqrt(1 + pi / 8 * variances))
        return means, means * (1 - means) * np.sqrt(variances)

    def _update(self, decision: Decision, reward: float) -> None:
        if not decision.features:  # a decision of a policy without features teaches only the counts
            return
        features, name, prior = np.array(decision.features), decision.chosen, self._prior()
        odds = float(self._weights(name, prior) @ features)
        _step(self._pooled, features, float(prior @ features), reward)
        predicted = _step(self._version(name), features, odds, reward)
        self._refresh(name)
        self._detect(name, predicted, reward, self.threshold)


def _step(regression: Regression, features: Array, odds: float, reward: float) -> float:
    """Adds an outcome by one Newton step; returns the rate that was predicted."""
    rate = 1 / (1 + exp(-min(max(odds, -_MAX_ODDS), _MAX_ODDS)))
    weight = max(rate * (1 - rate), MIN_WEIGHT)
    regression.add(features, weight, weight * odds + reward - rate)
    return rate
