"""The sections of ``upturn.toml`` for validation and canary, the two gates of a candidate version."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, Field

from upturn.config.settings import (
    Count,
    NotNegative,
    Positive,
    Probability,
    Rate,
    Settings,
    Share,
    WholeNumber,
    settings,
)


def _rising_to_one(stages: tuple[float, ...]) -> tuple[float, ...]:
    """Rejects stages that do not rise from above 0 to exactly 1."""
    rises = all(low < high for low, high in pairwise(stages))
    if len(stages) < 2 or not rises or stages[0] <= 0 or not math.isclose(stages[-1], 1.0):
        raise ValueError("stages must rise from above 0 to exactly 1.0 in two steps or more")
    return stages


@settings
class ValidationSettings(Settings):
    """Validation of a candidate version on held-out tasks, before its canary."""

    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """Significance level. It is the error of each one-sided limit, and the probability of reporting any family as
    worse that is not (Holm over families)."""
    minimum_effect: Rate = 0.0
    """Minimum gain in success rate: the gain's lower limit must be above it. 0 = any significant improvement."""
    strong_rate: Share = 0.8
    """Success rate from which a family of the incumbent counts as strong. Strong families are checked together for
    forgetting, see ``forgetting_margin``."""
    forgetting_margin: NotNegative = 0.05
    """Largest loss in success rate over all strong families together (``strong_rate``): the lower limit of their
    pooled difference must be above minus this value."""
    safety_margin: NotNegative = 0.05
    """Largest increase of the safety cost per task: the upper limit of candidate minus incumbent must not exceed
    it."""
    min_tasks: Count = 30
    """Minimum number of independent held-out tasks, where an episode counts as one; with fewer there is no verdict
    (``hold``)."""
    max_missing_share: Rate = 0.1
    """Largest share of tasks with a missing evaluation; above it there is no verdict (``hold``)."""
    resamples: Annotated[int, Field(ge=100)] = 10_000
    """Bootstrap resamples for each interval."""


@settings
class CanarySettings(Settings):
    """The canary of a candidate version: how its share of the traffic rises, and when it is promoted or rolled
    back."""

    stages: Annotated[tuple[float, ...], AfterValidator(_rising_to_one)] = (0.1, 0.5, 1.0)
    """The candidate's share of its agent's tasks in each stage, rising to 1. The last stage has no control arm."""
    alpha: Probability = 0.05
    """Twice the probability that a candidate which is not better ever replaces the incumbent, over all of the
    agent's releases until one is promoted, and twice the probability of each kind of false rollback. Both hold
    regardless of how often the evidence is checked."""
    min_candidate_tasks: Count = 30
    """Minimum number of judged candidate tasks before a promotion, and of candidate tasks in each stage before the
    next one."""
    max_candidate_episodes: Count = 2000
    """Maximum number of candidate episodes, where a task without an episode is one; without a verdict by then the
    candidate is rolled back."""
    max_unusable_blocks: Count = 5
    """Number of blocks in a row without an episode, or with a wrong traffic split, that roll the candidate back."""
    max_unjudged_episodes: Count = 50
    """Number of episodes in a row without a judged task that roll the candidate back."""
    mismatch_alpha: Probability = 0.01
    """Probability of a false alarm of the test of the traffic split. It is small because an alarm leads to a
    rollback."""
    minimum_effect: Probability | None = None
    """Minimum improvement in success rate: a promotion needs evidence that it is exceeded. Unset = any significant
    improvement."""
    safety_costs: tuple[str, ...] = ("safety",)
    """Cost components that count as safety violations."""
    safety_margin: Positive = 0.02
    """Largest excess of the candidate's rate of safety violations over the incumbent's: a promotion needs evidence
    that the excess is smaller."""
    hard_costs: tuple[str, ...] = ()
    """Cost components that are hard constraints: a promotion needs ``hard_tasks`` tasks without any of them, or
    evidence that the candidate incurs them less often than the incumbent."""
    hard_tasks: Count = 300
    """Minimum number of judged candidate tasks, all without a hard violation, before a promotion. With 300 the
    upper 95 % limit of the rate of violations is 1 %."""
    watch_tasks: WholeNumber = 0
    """Candidate tasks after promotion that are tested against the incumbent's recorded success rate, and roll the
    candidate back if it drops. 0 = no test after promotion."""

    def problems(self) -> Iterator[str | None]:
        """Yields contradictions between fields."""
        fewest, most = self.min_candidate_tasks, self.max_candidate_episodes
        if fewest > most:
            yield f"min_candidate_tasks = {fewest} is more than max_candidate_episodes = {most}"
        if self.hard_costs and self.hard_tasks > most:
            yield f"hard_tasks = {self.hard_tasks} is more than max_candidate_episodes = {most}"

    @property
    def threshold(self) -> float:
        """The e-value at which a candidate is rolled back: 2/alpha."""
        return 2.0 / self.alpha

    def promotion_threshold(self, attempt: int) -> float:
        """The e-value at which a candidate is promoted in an agent's ``attempt``-th release since its last
        promotion, from 1.

        The k-th of them spends 6/(π²k²) of alpha/2; these shares sum to 1, so the probability that any of them
        promotes a candidate that is not better is at most alpha/2, however many there are. Raises ValueError for an
        attempt below 1.
        """
        if attempt < 1:
            raise ValueError(f"attempts are counted from 1, got {attempt!r}")
        return self.threshold * attempt**2 * math.pi**2 / 6.0

    @property
    def last_comparison(self) -> int:
        """Index of the last stage with a control arm."""
        return len(self.stages) - 2
