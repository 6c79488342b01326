"""Linear contextual policies: LinUCB, and Thompson sampling whose versions share weights.

Each version has a Bayesian linear regression of the reward on the task's features. For Thompson sampling, its prior
mean is the regression over all versions, so a version without outcomes in a context predicts what versions do there
on average. Matrices are updated in double precision (Sherman and Morrison 1950) and used in single precision.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from upturn.arbiter.features import SIZE, task_features
from upturn.arbiter.policies.base import DEFAULT_FLOOR, Array, LearningPolicy, handicaps, shared_equally
from upturn.arbiter.policies.change import ChangeDetector, Run
from upturn.arbiter.policies.normal import probability_largest
from upturn.arbiter.policy import Candidate
from upturn.errors import RecordError
from upturn.records import Decision, Task, fields_json, from_fields, record

LINEAR_THRESHOLD = 8.0
"""Of the change detectors. On tuning streams of 1,000 tasks, regret with drift was 77 at 12 and 61 at 7; without
drift 47 and 49."""


@record
class Regression:
    """One regression, with arrays as base64 of little-endian doubles."""

    inverse: str
    moment: str
    runs: tuple[Run, ...] = ()


@record
class LinearState:
    """What a linear policy learned."""

    pooled: Regression
    versions: Mapping[str, Regression]


class _Regression:
    """Inverse of ``precision I + Σ x xᵀ`` and ``Σ x r``."""

    def __init__(self, precision: float) -> None:
        self.inverse: Array = np.eye(SIZE) / precision
        self.moment: Array = np.zeros(SIZE)
        self.detector = ChangeDetector()

    def add(self, features: Array, reward: float) -> None:
        direction = self.inverse @ features
        self.inverse -= np.outer(direction, direction) / (1 + float(features @ direction))
        self.moment += reward * features

    def dump(self) -> Regression:
        return Regression(_encoded(self.inverse), _encoded(self.moment), tuple(self.detector.runs))

    def load(self, state: Regression) -> "_Regression":
        self.inverse = _decoded(state.inverse, SIZE * SIZE).reshape(SIZE, SIZE)
        self.moment = _decoded(state.moment, SIZE)
        self.detector.runs = list(state.runs) or ChangeDetector().runs
        return self


class _LinearPolicy(LearningPolicy):
    """Base of the linear policies."""

    def __init__(self, name: str, floor: float, precision: float, **settings: object) -> None:
        if not precision > 0:
            raise ValueError(f"precision must be above 0, got {precision!r}")
        super().__init__(name, floor, precision=precision, **settings)
        self.precision = precision
        self._pooled = _Regression(1.0)
        self._versions: dict[str, _Regression] = {}
        self._stack: tuple[tuple[str, ...], NDArray[np.float32], Array] | None = None  # of the latest candidates

    def features(self, task: Task) -> tuple[float, ...]:
        """Returns the features of the task that the probabilities depend on."""
        return task_features(task)

    def _predicted(self, features: Array, names: tuple[str, ...], prior: Array) -> tuple[Array, Array]:
        """Returns means and ``xᵀ A⁻¹ x`` of the versions, each (K,); ``prior`` is the prior mean of the weights."""
        if self._stack is None or self._stack[0] != names:
            fresh = _Regression(self.precision)
            regressions = [self._versions.get(name, fresh) for name in names]
            inverses = np.concatenate([regression.inverse for regression in regressions]).astype(np.float32)
            self._stack = (names, inverses, np.stack([regression.moment for regression in regressions]))
        _, inverses, moments = self._stack
        directions = (inverses @ features.astype(np.float32)).reshape(len(names), SIZE).astype(np.float64)
        means = np.einsum("kd,kd->k", directions, moments + self.precision * prior)
        return means, np.maximum(directions @ features, 0.0)

    def _learn_version(self, name: str, features: Array, reward: float) -> None:
        regression = self._versions.setdefault(name, _Regression(self.precision))
        regression.add(features, reward)
        self._pooled.add(features, reward)
        if self._stack is not None and name in self._stack[0]:
            names, inverses, moments = self._stack
            index = names.index(name)
            inverses[index * SIZE : (index + 1) * SIZE] = regression.inverse
            moments[index] = regression.moment

    def _dump(self) -> str:
        versions = {name: regression.dump() for name, regression in sorted(self._versions.items())}
        return fields_json(LinearState(self._pooled.dump(), versions))

    def _load(self, learned: str) -> None:
        state = from_fields(LinearState, learned)
        versions = {name: _Regression(self.precision).load(saved) for name, saved in state.versions.items()}
        self._pooled, self._versions, self._stack = _Regression(1.0).load(state.pooled), versions, None


class LinUCB(_LinearPolicy):
    """The highest upper confidence limit ``θᵀx + alpha √(xᵀA⁻¹x)`` (Li et al. 2010, algorithm 1, disjoint)."""

    def __init__(self, *, floor: float = DEFAULT_FLOOR, alpha: float = 0.5) -> None:
        """``alpha``: weight of the standard deviation, at least 0."""
        if not alpha >= 0:
            raise ValueError(f"alpha must be at least 0, got {alpha!r}")
        super().__init__("lin_ucb", floor, 1.0, alpha=alpha)
        self.alpha = alpha

    def limits(self, features: Sequence[float], versions: Sequence[str]) -> Array:
        """Returns the upper confidence limit of each version, shape (K,)."""
        means, variances = self._predicted(np.array(features), tuple(versions), np.zeros(SIZE))
        return means + self.alpha * np.sqrt(variances)

    def _scores(self, task: Task, candidates: Sequence[Candidate]) -> Array:
        limits = self.limits(self.features(task), [candidate.version for candidate in candidates])
        return shared_equally(limits - handicaps(candidates))

    def _update(self, decision: Decision, reward: float) -> None:
        if decision.features:  # a decision of a policy without features teaches only the counts
            self._learn_version(decision.chosen, np.array(decision.features), reward)


class LinearThompson(_LinearPolicy):
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
        names = tuple(candidate.version for candidate in candidates)
        means, variances = self._predicted(np.array(self.features(task)), names, self._prior())
        return probability_largest(means - handicaps(candidates), self.noise * np.sqrt(variances))

    def _prior(self) -> Array:
        return np.asarray(self._pooled.inverse @ self._pooled.moment, dtype=np.float64)

    def _update(self, decision: Decision, reward: float) -> None:
        if not decision.features:  # a decision of a policy without features teaches only the counts
            return
        features, name = np.array(decision.features), decision.chosen
        regression = self._versions.setdefault(name, _Regression(self.precision))
        weights = regression.inverse @ (regression.moment + self.precision * self._prior())
        predicted = float(weights @ features)
        self._learn_version(name, features, reward)
        if self.threshold is None:
            return
        if regression.detector.add(predicted, reward, self.threshold) is not None:
            self._versions[name] = _Regression(self.precision)
            self._stack = None


def _encoded(values: Array) -> str:
    return b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode()


def _decoded(text: str, count: int) -> Array:
    try:
        values = np.frombuffer(b64decode(text, validate=True), dtype="<f8").astype(np.float64)
    except ValueError as exc:
        raise RecordError(f"a regression is not base64 of doubles: {exc}") from exc
    if len(values) != count or not np.isfinite(values).all():
        raise RecordError(f"a regression needs {count} finite numbers, got {len(values)}")
    return values
