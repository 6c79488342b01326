"""Thompson sampling on the outcomes of similar past tasks."""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from upturn.arbiter.features import SIZE
from upturn.arbiter.policies.base import DEFAULT_FLOOR, Array, FeaturePolicy
from upturn.arbiter.policies.normal import probability_largest
from upturn.arbiter.policy import Candidate
from upturn.arbiter.posterior import Posterior
from upturn.errors import RecordError
from upturn.records import Decision, Task, fields_json, from_fields, record

BANDWIDTH = 0.7
"""Distance of features at which an outcome weighs exp(−1/2). Another family or another text alone is √2 away and
weighs .13."""
PRIOR_WEIGHT = 2.0
"""Outcomes for which a version's mean over all tasks counts, and the mean over all versions in that."""
_WIDTH = SIZE + 1
"""A row: the features of a task, and the reward."""


@record
class Memory:
    """The latest outcomes of one version: rows as base64 of little-endian 4-byte floats, and sums over all ever."""

    rows: str
    outcomes: int
    reward: float


@record
class NeighboursState:
    """What ``NearestNeighbours`` learned."""

    versions: Mapping[str, Memory]


class _Memory:
    """A ring of the latest outcomes."""

    def __init__(self, capacity: int) -> None:
        self.rows: NDArray[np.float32] = np.zeros((capacity, _WIDTH), dtype=np.float32)
        self.outcomes = 0
        self.reward = 0.0

    def add(self, features: Sequence[float], reward: float) -> None:
        self.rows[self.outcomes % len(self.rows)] = (*features, reward)
        self.outcomes += 1
        self.reward += reward

    def near(self, features: NDArray[np.float32], count: int) -> tuple[float, float]:
        """Returns sums of weights and of weighted rewards over the ``count`` nearest outcomes."""
        rows = self.rows[: min(self.outcomes, len(self.rows))]
        differences = rows[:, :SIZE] - features
        distances = np.einsum("nd,nd->n", differences, differences)
        nearest = distances.argsort(kind="stable")[:count]
        weights = np.exp(distances[nearest].astype(np.float64) / (-2 * BANDWIDTH**2))
        return float(weights.sum()), float(weights @ rows[nearest, SIZE].astype(np.float64))


class NearestNeighbours(FeaturePolicy):
    """Thompson sampling on the nearest past tasks of each version, weighted by their distance.

    It assumes nothing on how success depends on features, so it also learns what no sum of effects describes; it
    needs more outcomes than a regression where one does. The probability of being best is that of normal variables
    with the means and variances of Beta posteriors.
    """

    def __init__(self, *, floor: float = DEFAULT_FLOOR, neighbours: int = 100, capacity: int = 500) -> None:
        """``neighbours``: outcomes of a version that count for a task. ``capacity``: latest ones that are kept."""
        if not 1 <= neighbours <= capacity:
            raise ValueError(f"neighbours must be from 1 to capacity={capacity!r}, got {neighbours!r}")
        super().__init__("nearest_neighbours", floor, neighbours=neighbours, capacity=capacity)
        self.neighbours = neighbours
        self.capacity = capacity
        self._versions: dict[str, _Memory] = {}

    def posterior(self, features: Sequence[float], version: str) -> Posterior:
        """Returns the posterior of the version's success rate on a task with these features."""
        outcomes = sum(memory.outcomes for memory in self._versions.values())
        reward = sum(memory.reward for memory in self._versions.values())
        mean = (reward + 1) / (outcomes + 2)
        memory = self._versions.get(version)
        if memory is None:
            return Posterior(PRIOR_WEIGHT * mean, PRIOR_WEIGHT * (1 - mean))
        mean = (memory.reward + PRIOR_WEIGHT * mean) / (memory.outcomes + PRIOR_WEIGHT)
        weight, rewarded = memory.near(np.array(features, dtype=np.float32), self.neighbours)
        successes = PRIOR_WEIGHT * mean + rewarded
        return Posterior(successes, PRIOR_WEIGHT + weight - successes)

    def _scores(self, task: Task, candidates: Sequence[Candidate]) -> Array:
        features = self.features(task)
        posteriors = [self.posterior(features, candidate.version) for candidate in candidates]
        means = np.array([posterior.mean for posterior in posteriors]) - self._offered(candidates).handicaps
        return probability_largest(means, np.array([posterior.deviation for posterior in posteriors]))

    def _update(self, decision: Decision, reward: float) -> None:
        if decision.features:  # a decision of a policy without features teaches only the counts
            memory = self._versions.setdefault(decision.chosen, _Memory(self.capacity))
            memory.add(decision.features, reward)

    def _dump(self) -> str:
        versions = {
            name: Memory(_encoded(memory), memory.outcomes, memory.reward)
            for name, memory in sorted(self._versions.items())
        }
        return fields_json(NeighboursState(versions))

    def _load(self, learned: str) -> None:
        state = from_fields(NeighboursState, learned)
        self._versions = {name: _memory(saved, self.capacity) for name, saved in state.versions.items()}


def _encoded(memory: _Memory) -> str:
    rows = memory.rows[: memory.outcomes]
    return b64encode(np.ascontiguousarray(rows, dtype="<f4").tobytes()).decode()


def _memory(state: Memory, capacity: int) -> _Memory:
    try:
        values = np.frombuffer(b64decode(state.rows, validate=True), dtype="<f4").astype(np.float32)
    except ValueError as exc:
        raise RecordError(f"the outcomes are not base64 of floats: {exc}") from exc
    count = min(state.outcomes, capacity)
    if state.outcomes < 0 or len(values) != count * _WIDTH or not np.isfinite(values).all():
        raise RecordError(f"{count} outcomes need {count * _WIDTH} finite numbers, got {len(values)}")
    memory = _Memory(capacity)
    memory.rows[:count] = values.reshape(count, _WIDTH)
    memory.outcomes, memory.reward = state.outcomes, state.reward
    return memory
