"""What all settings of a run say of evaluations, stopping, keeping and checkpoints, and what of it cannot be.

Counted in units, whatever a unit is: iterations, rounds, optimiser steps or epochs. No torch here.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Literal, Protocol

from upturn.training.validators import is_positive, unless, unless_missing, useless

Keep = Literal["best", "final"]
"""Which weights the model holds when the run returns: those of the best evaluation, or the last ones."""


class Watched(Protocol):
    """Of every run."""

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
    def checkpoint_every(self) -> int:
        """Units between two checkpoints."""


class Planned(Watched, Protocol):
    """Of a run of rounds, which has scores and costs of tasks."""

    @property
    def target_score(self) -> float | None:
        """Training stops once an evaluation reaches it; None = no target."""

    @property
    def cost_limits(self) -> Mapping[str, float]:
        """The most that each of these costs may be."""


def watch_problems(settings: Watched) -> Iterator[str | None]:
    """What of ``Watched`` is out of range, or would do nothing."""
    every, patience = settings.evaluate_every, settings.patience
    yield unless(settings.checkpoint_every, "checkpoint_every", "at least 1", is_positive)
    yield unless_missing(every, "evaluate_every", "at least 1 or None (never)", is_positive)
    yield unless_missing(patience, "patience", "at least 1", is_positive)
    yield _idle(f"patience={patience!r}", patience is not None, every)
    is_best_unknown = settings.keep == "best" and every is None
    yield useless(is_best_unknown, "keep='best'", "with evaluate_every=None; set evaluate_every, or keep='final'")


def plan_problems(settings: Planned) -> Iterator[str | None]:
    """The same of ``Planned``."""
    every, target, limits = settings.evaluate_every, settings.target_score, settings.cost_limits
    shown = f"cost_limits on {', '.join(map(repr, limits))}"
    yield from watch_problems(settings)
    yield unless_missing(target, "target_score", "finite", math.isfinite)
    yield _idle(f"target_score={target!r}", target is not None, every)
    for name, limit in limits.items():
        yield unless(limit, f"cost_limits[{name!r}]", "finite", math.isfinite)
    yield _idle(shown, bool(limits), every)
    is_unheld = bool(limits) and settings.keep == "final"
    yield useless(is_unheld, shown, "with keep='final', which keeps weights that break them; set keep='best'")


def _idle(setting: str, is_set: bool, evaluate_every: int | None) -> str | None:
    """The problem of what only an evaluation could act on."""
    cure = "with evaluate_every=None; set evaluate_every or leave it out"
    return useless(is_set and evaluate_every is None, setting, cure)
