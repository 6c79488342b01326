"""Things that are there before training, as optimiser steps: every one once in an epoch, in an order of its own."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel

from upturn.training.algorithms.sft import epoch_order
from upturn.training.optimisation import Trainer, schedule
from upturn.training.outcome import TrainingOutcome
from upturn.training.run_settings import EpochSettings
from upturn.training.runs import Evaluate, Progress, Run, RunPlace, RunPlan, identity_of
from upturn.training.stream import Unit


@dataclass(frozen=True, slots=True)
class Epochs:
    """How often so many things are gone through, so many at a time."""

    count: int
    batch: int
    """Of one step; the last step of an epoch may have fewer."""
    settings: EpochSettings

    @property
    def steps(self) -> int:
        """Optimiser steps of one epoch."""
        return math.ceil(self.count / self.batch)

    def trainer(self, model: PreTrainedModel) -> Trainer:
        """With the learning rate of such a run. Raises TrainingError for a model that cannot be trained."""
        total, optimiser = self.settings.epochs * self.steps, self.settings.optimiser
        return Trainer(model, optimiser, schedule(self.settings.decay, total, optimiser.warmup_steps))


class EpochSteps:
    """Steps in epochs as an algorithm: what a step holds is a pure function of (seed, step)."""

    def __init__(self, epochs: Epochs, seed: int, unit: Callable[[Sequence[int]], Unit]) -> None:
        """``unit``: the step that holds the things with these numbers."""
        self.epochs = epochs
        self._seed = seed
        self._unit = unit
        self._order: tuple[int, Sequence[int]] = (-1, ())

    def unit(self, index: int) -> Unit:
        """Step ``index`` of the run."""
        epoch, step = divmod(index, self.epochs.steps)
        if self._order[0] != epoch:
            self._order = (epoch, epoch_order(self.epochs.count, self._seed, epoch))
        size = self.epochs.batch
        found = self._unit(self._order[1][step * size : (step + 1) * size])
        return Unit(found.minibatches, {"epoch": float(epoch), **found.metrics})


@dataclass(frozen=True, slots=True)
class EpochRun:
    """A run in epochs, in its folder."""

    algorithm: str
    seed: int
    folder: Path
    evaluate: Evaluate | None
    """Of the number of finished epochs, first 0."""
    progress: Progress | None

    def finish(self, trainer: Trainer, steps: EpochSteps, **learned: object) -> TrainingOutcome:
        """Trains to the end. ``learned``: what says what is learned from, by name."""
        epochs, evaluate = steps.epochs, self.evaluate
        settings = epochs.settings
        plan = RunPlan(
            units=settings.epochs * epochs.steps,
            evaluate_every=None if settings.evaluate_every is None else settings.evaluate_every * epochs.steps,
            checkpoint_every=settings.checkpoint_every,
            keep=settings.keep,
            patience=settings.patience,
            unit="optimiser step",
        )
        identity = identity_of(trainer, self.algorithm, settings, seed=self.seed, **learned)
        by_unit: Evaluate | None = None if evaluate is None else lambda units: evaluate(units // epochs.steps)
        return Run(trainer, steps, plan, RunPlace(self.folder, identity), by_unit, self.progress).finish()
