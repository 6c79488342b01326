"""Thompson sampling for graded rewards, whose mean and variance are unknown."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from upturn.arbiter.policies.base import DEFAULT_FLOOR, Array, LearningPolicy
from upturn.arbiter.policies.evidence import Evidence
from upturn.arbiter.policies.student import probability_largest_student
from upturn.arbiter.policy import Candidate
from upturn.arbiter.posterior import Posterior
from upturn.records import Decision, Task

PRIOR_SHAPE = 1.5
"""Of the variance's inverse gamma prior: it counts like three outcomes, so that variances are finite."""
PRIOR_VARIANCE = 1 / 12
"""Expected variance before any outcome, that of a uniform reward; it counts like one outcome."""


class StudentPosterior(NamedTuple):
    """Marginal posterior of a mean reward: a Student distribution."""

    location: float
    scale: float
    freedom: float

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return float(self.scale * (self.freedom / (self.freedom - 2)) ** 0.5)


class GaussianThompson(LearningPolicy):
    """Thompson sampling by family on normal rewards of unknown mean and variance (Honda and Takemura 2014).

    The prior is normal-inverse-gamma. Its mean is the version's in other families (at most two outcomes) and that
    of all rewards (one outcome); its variance is that of all rewards within families and versions. So rewards with
    a small spread separate versions that a Beta posterior, which takes a reward of .5 for a coin, does not.
    The probabilities are P(highest mean − handicap), exact to 1e-6.
    """

    def __init__(self, *, floor: float = DEFAULT_FLOOR, discount: float = 1.0, window: int | None = None) -> None:
        """``discount`` and ``window``: how outcomes are forgotten; at most one of them (1 and None = never)."""
        self._evidence = Evidence(discount=discount, window=window)
        super().__init__("gaussian_thompson", floor, discount=discount, window=window)

    def posterior(self, family: str, version: str) -> StudentPosterior:
        """Returns the posterior of the version's mean reward in the family (Murphy 2007, section 3)."""
        overall, cell = self._evidence.overall(), self._evidence.cell(family, version)
        borrowed, weight = self._evidence.borrowed(family, version)
        everywhere = (0.5 + overall.weight * overall.mean) / (1 + overall.weight)
        prior_weight = 1 + weight
        prior = (everywhere + weight * borrowed) / prior_weight
        variance = (PRIOR_VARIANCE + overall.squares) / (1 + overall.weight)
        total = prior_weight + cell.weight
        shape = PRIOR_SHAPE + cell.weight / 2
        rate = PRIOR_SHAPE * variance + cell.squares / 2
        rate += prior_weight * cell.weight / total * (cell.mean - prior) ** 2 / 2
        mean = (prior_weight * prior + cell.weight * cell.mean) / total
        return StudentPosterior(mean, float((rate / (shape * total)) ** 0.5), 2 * shape)

    def belief(self, family: str, version: str) -> Posterior:
        """Returns the Beta distribution with the mean and deviation of ``posterior``, for reports."""
        posterior = self.posterior(family, version)
        mean = min(max(posterior.location, 1e-9), 1 - 1e-9)
        total = max(mean * (1 - mean) / max(posterior.deviation, 1e-9) ** 2 - 1, 2.0)
        return Posterior(mean * total, (1 - mean) * total)

    def _scores(self, task: Task, candidates: Sequence[Candidate]) -> Array:
        posteriors = [self.posterior(task.family, candidate.version) for candidate in candidates]
        shifted = tuple(
            (posterior.location - candidate.handicap, posterior.scale, posterior.freedom)
            for posterior, candidate in zip(posteriors, candidates, strict=True)
        )
        return np.array(probability_largest_student(shifted))

    def _update(self, decision: Decision, reward: float) -> None:
        self._evidence.add(decision.family, decision.chosen, reward)

    def _dump(self) -> str:
        return self._evidence.dump()

    def _load(self, learned: str) -> None:
        self._evidence.load(learned)
