"""The sections of ``upturn.toml`` that say what a candidate must show before it replaces the version that
serves."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, Field

from upturn.config.settings import Count, NotNegative, Probability, Rate, Settings, Share, WholeNumber, settings


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
    """How a candidate is let in, step by step, and what takes it out."""

    stages: Annotated[tuple[float, ...], AfterValidator(_rising_to_one)] = (0.1, 0.5, 1.0)
    """The candidate's share of its agent's tasks, rising to 1, where no control is left to compare with."""
    alpha: Probability = 0.05
    """Chance of a false verdict, both directions together, however often one looks."""
    min_candidate_tasks: Count = 30
    """Candidate tasks before any promotion, and in each stage before the next."""
    max_candidate_tasks: Count = 2000
    """Candidate tasks after which no verdict means rollback."""
    patience_blocks: Count = 5
    """Blocks in a row without usable data after which they mean rollback."""
    max_missing_share: Rate = 0.1
    """Share of a block's evaluations that may be missing."""
    mismatch_alpha: Probability = 0.01
    """Chance of a false alarm about the traffic split; small, because an alarm ends in a rollback."""
    minimum_effect: Probability | None = None
    """Lower limit of the improvement that promotion asks for; left out = any shown improvement."""
    safety_margin: NotNegative = 0.02
    """How far the candidate's rate of safety violations may lie above the incumbent's."""
    watch_tasks: WholeNumber = 0
    """Candidate tasks watched at 100 % against the recorded incumbent after promotion; 0 = no watch."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        fewest, most = self.min_candidate_tasks, self.max_candidate_tasks
        if fewest > most:
            yield f"min_candidate_tasks = {fewest} is more than max_candidate_tasks = {most}"

    @property
    def threshold(self) -> float:
        """The e-value at which a verdict falls: 2/alpha, half of alpha for each direction."""
        return 2.0 / self.alpha

    @property
    def last_comparison(self) -> int:
        """Index of the last stage that still has a control arm."""
        return len(self.stages) - 2
