"""What all runs have in common: optimiser, evaluations, stopping, keeping and checkpoints.

Counted in units, whatever a unit is: iterations, or optimiser steps in epochs. No torch here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Literal, Protocol

from upturn.config import Count, NotNegative, OptimiserSettings, Rate, Settings, settings, useless

Decay = Literal["none", "linear", "cosine"]
Keep = Literal["best", "final"]
"""Which weights the model holds when the run returns: those of the best evaluation, or the last ones."""


class Planned(Protocol):
    """When a run evaluates, stops and saves."""

    @property
    def checkpoint_every(self) -> int:
        """Units between two checkpoints."""

    @property
    def evaluate_every(self) -> int | None:
        """Units between two evaluations; None = never evaluated."""

    @property
    def patience(self) -> int | None:
        """Evaluations in a row without a new best, after which training stops; None = never for this reason."""

    @property
    def keep(self) -> Keep:
        """Which weights."""

    @property
    def target_score(self) -> float | None:
        """Training stops once an evaluation reaches it; None = no target."""

    @property
    def cost_limits(self) -> Mapping[str, float]:
        """The most that each of these costs may be."""


def plan_problems(plan: Planned) -> Iterator[str | None]:
    """What of a plan would do nothing."""
    every, limits = plan.evaluate_every, plan.cost_limits
    shown = f"cost_limits on {', '.join(map(repr, limits))}"
    yield _idle(f"patience={plan.patience!r}", plan.patience is not None, every)
    yield _unknown_best(plan.keep, every)
    yield _idle(f"target_score={plan.target_score!r}", plan.target_score is not None, every)
    yield _idle(shown, bool(limits), every)
    is_unheld = bool(limits) and plan.keep == "final"
    yield useless(is_unheld, shown, "with keep='final', which keeps weights that break them; set keep='best'")


def _unknown_best(keep: Keep, every: int | None) -> str | None:
    cure = "with evaluate_every=None; set evaluate_every, or keep='final'"
    return useless(keep == "best" and every is None, "keep='best'", cure)


def _idle(setting: str, is_set: bool, evaluate_every: int | None) -> str | None:
    """The problem of what only an evaluation could act on."""
    cure = "with evaluate_every=None; set evaluate_every or leave it out"
    return useless(is_set and evaluate_every is None, setting, cure)


@settings
class EpochSettings(Settings):
    """Training in epochs, on what is there before it begins."""

    epochs: Count = 1
    """Passes over all of it."""
    optimiser: OptimiserSettings = OptimiserSettings()
    """AdamW."""
    decay: Decay = "linear"
    """How the learning rate falls to 0 between warm-up and the last step."""
    evaluate_every: Count | None = None
    """Epochs between two evaluations; left out = never evaluated."""
    patience: Count | None = None
    """Evaluations in a row without a new best after which training stops; left out = never for this reason."""
    keep: Keep = "final"
    """Which weights are kept: those of the best evaluation, or the last ones."""
    checkpoint_every: Count = 20
    """Optimiser steps between two checkpoints."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        yield _idle(f"patience={self.patience!r}", self.patience is not None, self.evaluate_every)
        yield _unknown_best(self.keep, self.evaluate_every)


@settings
class IterationSettings(Settings):
    """Training in iterations, each of which finds or samples what it learns from."""

    iterations: Count = 40
    """Iterations."""
    optimiser: OptimiserSettings = OptimiserSettings()
    """AdamW."""
    decay: Decay = "none"
    """How the learning rate falls over the iterations: with ``linear`` from all of it in the first to 1/n in the
    last of n, where a next one would have 0. By iterations done, since one without a signal takes no step; warm-up
    comes on top."""
    evaluate_every: Count | None = 5
    """Iterations between two evaluations on tasks that are neither trained on nor held out; the first comes before
    any training. ``false`` = never evaluated, which needs ``keep = "final"``."""
    target_score: float | None = None
    """Evaluation score at which training stops; left out = no target."""
    patience: Count | None = None
    """Evaluations in a row without a new best after which training stops; left out = never for this reason."""
    cost_limits: Mapping[str, NotNegative] = field(default_factory=dict)
    """The most that each of these costs, such as ``safety`` or ``error``, may be in an evaluation: weights that
    cost more are never kept, and a run that leaves the limits, once within them, stops. The verifier must give
    them."""
    keep: Keep = "best"
    """Which weights are kept: those of the best evaluation, or the last ones."""
    checkpoint_every: Count = 1
    """Iterations between two checkpoints."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        yield from plan_problems(self)


@settings
class OnlineSettings(IterationSettings):
    """Training on fresh trajectories of the policy. How they are sampled is read by whoever collects them."""

    tasks_per_iteration: Count = 24
    """Tasks in one iteration."""
    group_size: Count = 8
    """Trajectories of each task; at least two where they are compared with each other."""
    incumbent_share: Rate = 0.0
    """Share of the serving version's weights in those of the candidate; more keeps more of what it could do before
    (WiSE-FT, arXiv 2109.01903)."""
