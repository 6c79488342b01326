"""Bayesian regressions of the reward on a task's features, one per version, with a shared prior mean.

The prior mean of a version's weights is the regression over all versions, so a version without outcomes in a
context predicts what versions do there on average. Matrices are updated in double precision (Sherman and Morrison
1950) and used in single precision, without the features that no outcome has had: there the weights of all versions
are uncorrelated with the others, with mean 0 and the variance of the prior.
"""

from array import array
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from upturn.arbiter.features import SIZE
from upturn.arbiter.policies.base import Array, FeaturePolicy
from upturn.arbiter.policies.change import ChangeDetector, Run
from upturn.errors import RecordError
from upturn.records import Task, fields_json, from_fields, record

MAX_STACKS = 8
"""Maximum number of sets of candidates whose matrices are kept; all are dropped when there are more."""


class _Stack(NamedTuple):
    """The regressions of K versions."""

    inverses: NDArray[np.float32]
    """(K · D, D) of the D known features."""
    moments: Array
    """(K, D)"""


@record
class RegressionState:
    """One regression, with arrays as base64 of little-endian doubles."""

    inverse: str
    moment: str
    runs: tuple[Run, ...] = ()


@record
class BankState:
    """What a policy with regressions learned."""

    pooled: RegressionState
    versions: Mapping[str, RegressionState]


class Regression:
    """Inverse of ``A = precision I + Σ w x xᵀ``, and ``Σ m x``, for outcomes with weight w and moment m."""

    def __init__(self, precision: float) -> None:
        self.inverse: Array = np.eye(SIZE) / precision
        self._variance = 1 / precision
        self.moment: Array = np.zeros(SIZE)
        self.detector = ChangeDetector()

    def add(self, features: Array, weight: float, moment: float) -> None:
        """Adds one outcome. A linear regression has weight 1 and the reward as moment."""
        direction = self.inverse @ features
        self.inverse -= np.outer(direction, direction) * (weight / (1 + weight * float(features @ direction)))
        self.moment += moment * features

    def known(self) -> NDArray[np.bool_]:
        """Returns True for the features that an outcome has had, (SIZE,); wrong after ``weaken``."""
        return np.asarray(self.inverse.diagonal() != self._variance)

    def weaken(self, share: float, precision: float, prior: Array) -> None:
        """Keeps this share of the outcomes' weight: the weights θ stay, and their variances grow."""
        weights = self.inverse @ (self.moment + precision * prior)
        least = precision * np.eye(SIZE)
        kept = least + share * (np.linalg.inv(self.inverse) - least)
        self.inverse = np.asarray(np.linalg.inv((kept + kept.T) / 2), dtype=np.float64)
        self.moment = kept @ weights - precision * prior

    def dump(self) -> RegressionState:
        """Returns the state."""
        return RegressionState(_encoded(self.inverse), _encoded(self.moment), tuple(self.detector.runs))

    def load(self, state: RegressionState) -> "Regression":
        """Replaces the state, and returns the regression; raises RecordError for invalid arrays."""
        self.inverse = _decoded(state.inverse, SIZE * SIZE).reshape(SIZE, SIZE)
        self.moment = _decoded(state.moment, SIZE)
        self.detector.runs = list(state.runs) or ChangeDetector().runs
        return self


class RegressionPolicy(FeaturePolicy):
    """Base of the policies with a regression per version."""

    def __init__(self, name: str, floor: float, precision: float, **settings: object) -> None:
        """``precision``: of a version's weights around the prior mean."""
        if not precision > 0:
            raise ValueError(f"precision must be above 0, got {precision!r}")
        super().__init__(name, floor, precision=precision, **settings)
        self.precision = precision
        self._pooled = Regression(1.0)
        self._pooled_weights: Array = np.zeros(SIZE)
        self._versions: dict[str, Regression] = {}
        self._known = np.zeros(0, dtype=np.intp)  # the features that an outcome has had
        self._stacks: dict[tuple[str, ...], _Stack] = {}  # by the versions of recent decisions

    def _prior(self) -> Array:
        """Returns the weights of the regression over all versions, shape (SIZE,)."""
        return self._pooled_weights

    def _solve_prior(self) -> None:
        self._pooled_weights = np.asarray(self._pooled.inverse @ self._pooled.moment, dtype=np.float64)

    def _features_of(self, task: Task) -> Array:
        """Returns the features of a task as an array; by way of ``array`` in half the time."""
        return np.frombuffer(array("d", self.features(task)))

    def _predicted(self, features: Array, names: tuple[str, ...], prior: Array) -> tuple[Array, Array]:
        """Returns ``θᵀx`` and ``xᵀ A⁻¹ x`` of the versions, each (K,); ``prior`` is the prior mean of θ."""
        inverses, moments = self._stacks.get(names) or self._stack(names)
        known = features[self._known]
        directions = (inverses @ known.astype(np.float32)).reshape(moments.shape).astype(np.float64)
        means = np.vecdot(directions, moments) + directions @ (self.precision * prior[self._known])
        unknown = max(float(features @ features) - float(known @ known), 0.0) / self.precision
        return means, np.maximum(directions @ known, 0.0) + unknown

    def _stack(self, names: tuple[str, ...]) -> _Stack:
        """Returns the matrices of the versions, and keeps them."""
        fresh = Regression(self.precision)
        regressions = [self._versions.get(name, fresh) for name in names]
        square = np.ix_(self._known, self._known)
        inverses = np.concatenate([regression.inverse[square] for regression in regressions]).astype(np.float32)
        if len(self._stacks) >= MAX_STACKS:
            self._stacks.clear()
        moments = np.stack([regression.moment[self._known] for regression in regressions])
        stack = self._stacks[names] = _Stack(inverses, moments)
        return stack

    def _version(self, name: str) -> Regression:
        """Returns the version's regression, a new one if it has no outcomes."""
        return self._versions.setdefault(name, Regression(self.precision))

    def _weights(self, name: str, prior: Array) -> Array:
        """Returns the weights of a version in double precision, shape (SIZE,)."""
        regression = self._version(name)
        return np.asarray(regression.inverse @ (regression.moment + self.precision * prior), dtype=np.float64)

    def _refresh(self, name: str) -> None:
        """Copies what was learned of a version to what decisions read."""
        self._solve_prior()
        known = self._complete(name).known()
        if np.count_nonzero(known) > np.count_nonzero(known[self._known]):
            self._know(known)
            return
        regression, size = self._versions[name], len(self._known)
        inverse = regression.inverse[np.ix_(self._known, self._known)]
        for names, (inverses, moments) in self._stacks.items():
            if name in names:
                index = names.index(name)
                inverses[index * size : (index + 1) * size] = inverse
                moments[index] = regression.moment[self._known]

    def _complete(self, name: str) -> Regression:  # noqa: ARG002 - by version in policies without the pooled one
        """Returns a regression that never forgets an outcome of the version."""
        return self._pooled

    def _know(self, known: NDArray[np.bool_]) -> None:
        """Adds to the features that an outcome has had, and drops the matrices of recent candidates."""
        self._known = np.union1d(self._known, known.nonzero()[0])
        self._stacks.clear()

    def _is_changed(self, name: str, predicted: float, reward: float, threshold: float | None) -> bool:
        """Restarts the version's regression at an alarm of its change detector, and returns True then.

        ``threshold``: None = no detection."""
        if threshold is None or self._versions[name].detector.add(predicted, reward, threshold) is None:
            return False
        self._versions[name] = Regression(self.precision)
        self._refresh(name)
        return True

    def _dump(self) -> str:
        versions = {name: regression.dump() for name, regression in sorted(self._versions.items())}
        return fields_json(BankState(self._pooled.dump(), versions))

    def _load(self, learned: str) -> None:
        state = from_fields(BankState, learned)
        versions = {name: Regression(self.precision).load(saved) for name, saved in state.versions.items()}
        self._pooled, self._versions = Regression(1.0).load(state.pooled), versions
        self._solve_prior()
        self._known = np.zeros(0, dtype=np.intp)
        self._stacks.clear()
        for name in versions:
            self._know(self._complete(name).known())


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
