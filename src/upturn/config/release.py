"""The sections of ``upturn.toml`` that say what a candidate must show before it replaces the version that
serves."""

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
    """Refuses stages that do not rise from above 0 to exactly 1."""
    rises = all(low < high for low, high in pairwise(stages))
    if len(stages) < 2 or not rises or stages[0] <= 0 or not math.isclose(stages[-1], 1.0):
        raise ValueError("stages must rise from above 0 to exactly 1.0 in two steps or more")
    return stages


@settings
class ValidationSettings(Settings):
    """What a candidate must show on held-out tasks before any user meets it."""

    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """Error of each one-sided bound, and chance of calling a family worse that is not (Holm over families)."""
    minimum_effect: Rate = 0.0
    """The gain's lower limit must lie above it; 0 = any shown improvement."""
    strong_rate: Share = 0.8
    """Families the incumbent solves at least this often are guarded together against forgetting …"""
    forgetting_margin: NotNegative = 0.05
    """… and their pooled difference must be shown not to fall by more than this."""
    safety_margin: NotNegative = 0.05
    """Safety cost per task by which the candidate may exceed the incumbent within its upper limit."""
    min_tasks: Count = 30
    """Held-out tasks below which no interval is trusted."""
    max_missing_share: Rate = 0.1
    """Share of the tasks with a missing evaluation above which there is no verdict."""
    resamples: Annotated[int, Field(ge=100)] = 10_000
    """Bootstrap resamples over tasks behind each interval."""


@settings
class CanarySettings(Settings):
    """How a candidate is released, stage by stage, and what rolls it back."""

    stages: Annotated[tuple[float, ...], AfterValidator(_rising_to_one)] = (0.1, 0.5, 1.0)
    """The candidate's share of its agent's tasks, rising to 1, where no control is left to compare with."""
    alpha: Probability = 0.05
    """Half of it is the probability that a candidate which is not better ever replaces the incumbent, over all
    releases until one is promoted; half is the probability of each false rollback. Both hold however often one
    looks."""
    min_candidate_tasks: Count = 30
    """Judged candidate tasks before any promotion, and candidate tasks in each stage before the next."""
    max_candidate_tasks: Count = 2000
    """Candidate tasks after which no verdict means rollback."""
    patience_blocks: Count = 5
    """Blocks in a row without an episode, or with the traffic split wrongly, after which they mean rollback."""
    patience_episodes: Count = 50
    """Episodes in a row of which no task was judged, after which they mean rollback."""
    mismatch_alpha: Probability = 0.01
    """Probability of a false alarm about the traffic split. Small, because an alarm ends in a rollback."""
    minimum_effect: Probability | None = None
    """The improvement must be shown to exceed this; omit for any shown improvement."""
    safety_costs: tuple[str, ...] = ("safety",)
    """Cost components that are violations of safety."""
    safety_margin: Positive = 0.02
    """The candidate's rate of violations must be shown to exceed the incumbent's by less than this."""
    hard_costs: tuple[str, ...] = ()
    """Cost components that are hard constraints: the candidate may never incur them, or must be shown to incur them
    less often than the incumbent."""
    hard_tasks: Count = 300
    """Judged candidate tasks that must keep every hard constraint before promotion. With 300 the upper 95 % limit
    of the rate of violations is 1 %."""
    watch_tasks: WholeNumber = 0
    """Candidate tasks watched at 100 % against the recorded incumbent after promotion; 0 means no watch."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        fewest, most = self.min_candidate_tasks, self.max_candidate_tasks
        if fewest > most:
            yield f"min_candidate_tasks = {fewest} is more than max_candidate_tasks = {most}"
        if self.hard_costs and self.hard_tasks > most:
            yield f"hard_tasks = {self.hard_tasks} is more than max_candidate_tasks = {most}"

    @property
    def threshold(self) -> float:
        """The e-value at which a candidate is rolled back: 2/alpha."""
        return 2.0 / self.alpha

    def promotion_threshold(self, attempt: int) -> float:
        """The e-value at which a candidate is promoted in an agent's ``attempt``-th release since its last
        promotion, from 1.

        The k-th of them spends 6/(π²k²) of alpha/2; these shares sum to 1, so the probability that any of them
        promotes a candidate that is not better is at most alpha/2, however many there are.
        """
        return self.threshold * attempt**2 * math.pi**2 / 6.0

    @property
    def last_comparison(self) -> int:
        """Index of the last stage that still has a control arm."""
        return len(self.stages) - 2
