"""Thompson sampling on the latest outcomes of a family."""

from collections.abc import Sequence

import numpy as np

from upturn.arbiter.policies.base import DEFAULT_FLOOR, Array, LearningPolicy
from upturn.arbiter.policies.evidence import Evidence
from upturn.arbiter.policies.normal import probability_largest
from upturn.arbiter.policy import Candidate
from upturn.arbiter.posterior import Posterior
from upturn.records import Decision, Task

DEFAULT_WINDOW = 400
"""Outcomes of a family. With two agents, a rate is then known to .04."""


class SlidingThompson(LearningPolicy):
    """Thompson sampling on the latest ``window`` outcomes of each family (Trovò et al. 2020).

    The prior is Beta(1, 1) plus at most two outcomes of the version in other families. The probability of being
    best is that of normal variables with the posteriors' means and variances.
    """

    def __init__(self, *, floor: float = DEFAULT_FLOOR, window: int = DEFAULT_WINDOW) -> None:
        """``window``: outcomes of each family that count, of all versions together."""
        self._evidence = Evidence(window=window)
        super().__init__("sliding_thompson", floor, window=window)

    def belief(self, family: str, version: str) -> Posterior:
        """Returns the posterior of the version's success rate in the family."""
        cell = self._evidence.cell(family, version)
        mean, weight = self._evidence.borrowed(family, version)
        successes = cell.weight * cell.mean + weight * mean
        return Posterior(1 + successes, 1 + cell.weight + weight - successes)

    def _scores(self, task: Task, candidates: Sequence[Candidate]) -> Array:
        beliefs = [self.belief(task.family, candidate.version) for candidate in candidates]
        means = np.array([belief.mean for belief in beliefs]) - self._offered(candidates).handicaps
        return probability_largest(means, np.array([belief.deviation for belief in beliefs]))

    def _update(self, decision: Decision, reward: float) -> None:
        self._evidence.add(decision.family, decision.chosen, reward)

    def _dump(self) -> str:
        return self._evidence.dump()

    def _load(self, learned: str) -> None:
        self._evidence.load(learned)
