"""Policies without posteriors: fixed weights, UCB1, and the cheapest version that clears a quality bar."""

from collections.abc import Mapping, Sequence

import numpy as np

from upturn.arbiter.policies.base import DEFAULT_FLOOR, Array, LearningPolicy, shared_equally
from upturn.arbiter.policy import Candidate
from upturn.records import Decision, Task


class _CountingPolicy(LearningPolicy):
    """Base of policies that depend on the counts only."""

    def _update(self, decision: Decision, reward: float) -> None:
        """The counts are updated already."""

    def _dump(self) -> str:
        return ""

    def _load(self, learned: str) -> None:
        """The counts are restored by the base."""


class FixedWeights(_CountingPolicy):
    """Constant shares by agent, scaled to the eligible ones; agents without a weight share the floor."""

    def __init__(self, weights: Mapping[str, float], *, floor: float = DEFAULT_FLOOR) -> None:
        """``weights``: by agent, at least 0 and not all 0."""
        if not weights or min(weights.values()) < 0 or not sum(weights.values()) > 0:
            raise ValueError(f"weights must be at least 0 and not all 0, got {dict(weights)!r}")
        super().__init__("fixed_weights", floor, weights=sorted(weights.items()))
        self.weights = dict(weights)

    def _scores(self, task: Task, candidates: Sequence[Candidate]) -> Array:  # noqa: ARG002 - contract
        shares = np.array([self.weights.get(candidate.agent, 0.0) for candidate in candidates])
        return shares / shares.sum() if shares.sum() else np.full(len(shares), 1 / len(shares))


class UCB1(_CountingPolicy):
    """The highest ``mean + √(2 ln n / n_a)`` in the task's family (Auer et al. 2002); untried versions first."""

    def __init__(self, *, floor: float = DEFAULT_FLOOR) -> None:
        super().__init__("ucb1", floor)

    def _scores(self, task: Task, candidates: Sequence[Candidate]) -> Array:
        counts = [self.tally.count(task.family, candidate.version) for candidate in candidates]
        outcomes = np.array([count.outcomes for count in counts], dtype=np.float64)
        if not outcomes.all():
            return shared_equally((outcomes == 0).astype(np.float64))
        means = np.array([count.reward for count in counts]) / outcomes
        return shared_equally(
            means + np.sqrt(2 * np.log(outcomes.sum()) / outcomes) - self._offered(candidates).handicaps
        )


class CheapestAboveBar(_CountingPolicy):
    """The lowest handicap among the versions whose posterior mean in the family reaches ``bar``.

    If none reaches it, the highest mean. A handicap of 0 for all means that costs are not weighted.
    """

    def __init__(self, bar: float, *, floor: float = DEFAULT_FLOOR) -> None:
        """``bar``: success rate, above 0 and at most 1."""
        if not 0 < bar <= 1:
            raise ValueError(f"bar must be above 0 and at most 1, got {bar!r}")
        super().__init__("cheapest", floor, bar=bar)
        self.bar = bar

    def _scores(self, task: Task, candidates: Sequence[Candidate]) -> Array:
        means = np.array([self.tally.posterior(task.family, candidate.version).mean for candidate in candidates])
        clears = means >= self.bar
        return shared_equally(
            np.where(clears, -self._offered(candidates).handicaps, -np.inf) if clears.any() else means
        )
