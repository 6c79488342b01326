"""Thompson sampling on logistic regressions whose versions share weights.

A regression has a normal posterior of its weights, updated by one Newton step per outcome from the current estimate
(the extended Kalman filter; Fahrmeir 1992): with odds ``z = θᵀx``, rate ``p = σ(z)`` and weight ``w = p (1 − p)``,
``A += w x xᵀ`` and ``b += (w z + r − p) x``, and ``θ = A⁻¹ (b + precision · prior mean)``.
"""

from collections.abc import Sequence
from math import exp, pi

import numpy as np
from scipy import special

from upturn.arbiter.policies.base import DEFAULT_FLOOR, Array
from upturn.arbiter.policies.normal import probability_largest
from upturn.arbiter.policies.regression import Regression, RegressionPolicy
from upturn.arbiter.policy import Candidate
from upturn.records import Decision, Task

LOGISTIC_THRESHOLD = 6.0
"""Of the change detectors. On 16 tuning streams of 2,000 tasks, regret with drift was 104 at 8 and 94 at 6; without
drift 67 and 65."""
KEPT = 0.1
"""Share of the evidence on the other versions that is kept when one version is shown to have changed: what changed
one may have changed them. Regret with drift was 96 without, and 88 with it."""
MIN_WEIGHT = 0.01
"""Weight of an outcome whose rate is predicted as nearly 0 or 1, so that one surprise does not move weights far."""
_MAX_ODDS = 30.0


class LogisticThompson(RegressionPolicy):
    """Thompson sampling on logistic regressions that share a prior mean, and restart on evidence of change.

    The probabilities are ``P(best)^agreement``, scaled to sum to 1: those of the version on which ``agreement``
    independent draws from the posterior agree. P(best) is that of independent normal variables with the means and
    deviations of the rates.
    """

    def __init__(
        self,
        *,
        floor: float = DEFAULT_FLOOR,
        precision: float = 3.0,
        agreement: int = 4,
        threshold: float | None = LOGISTIC_THRESHOLD,
    ) -> None:
        """``precision``: of a version's weights around the shared prior mean.

        ``agreement``: draws that agree; 1 = Thompson sampling, which explored too long in ``benchmarks routing``.
        Narrower posteriors instead stayed with a wrong version in some streams. ``threshold``: of the change
        detectors; None = none.
        """
        if agreement < 1:
            raise ValueError(f"agreement must be at least 1, got {agreement!r}")
        super().__init__("logistic_thompson", floor, precision, agreement=agreement, threshold=threshold)
        self.agreement = agreement
        self.threshold = threshold

    def _scores(self, task: Task, candidates: Sequence[Candidate]) -> Array:
        offered = self._offered(candidates)
        means, deviations = self.rates(self._features_of(task), offered.versions)
        best = probability_largest(means - offered.handicaps, deviations) ** self.agreement
        return np.asarray(best / best.sum(), dtype=np.float64)

    def rates(self, features: Sequence[float] | Array, versions: Sequence[str]) -> tuple[Array, Array]:
        """Returns means m and deviations of the versions' success rates, each (K,).

        For odds z of variance v, ``m = σ(z / √(1 + π v / 8))`` (MacKay 1992) and the deviation is
        ``m (1 − m) √(v / (1 + π v / 8))``, .212 instead of .208 for z = 0 and v = 1."""
        odds, variances = self._predicted(np.asarray(features), tuple(versions), self._prior())
        spread = 1 + pi / 8 * variances
        means = special.expit(odds / np.sqrt(spread))
        return means, means * (1 - means) * np.sqrt(variances / spread)

    def _update(self, decision: Decision, reward: float) -> None:
        if not decision.features:  # a decision of a policy without features teaches only the counts
            return
        features, name, prior = np.array(decision.features), decision.chosen, self._prior()
        odds = float(self._weights(name, prior) @ features)
        _step(self._pooled, features, float(prior @ features), reward)
        predicted = _step(self._version(name), features, odds, reward)
        self._refresh(name)
        if self._is_changed(name, predicted, reward, self.threshold):
            prior = self._prior()
            for other in sorted(self._versions.keys() - {name}):
                self._versions[other].weaken(KEPT, self.precision, prior)
                self._refresh(other)


def _step(regression: Regression, features: Array, odds: float, reward: float) -> float:
    """Adds an outcome by one Newton step; returns the rate that was predicted."""
    rate = 1 / (1 + exp(-min(max(odds, -_MAX_ODDS), _MAX_ODDS)))
    weight = max(rate * (1 - rate), MIN_WEIGHT)
    regression.add(features, weight, weight * odds + reward - rate)
    return rate
