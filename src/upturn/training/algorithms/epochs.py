"""Training in epochs on a fixed data set: each item once per epoch, in a new order."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from transformers import PreTrainedModel

from upturn.training.optimisation import Read, Trainer, chosen_logprobs, schedule
from upturn.training.outcome import TrainingOutcome
from upturn.training.run_settings import EpochSettings
from upturn.training.runs import Run, RunOptions, RunPlan, identity_of
from upturn.training.stream import Unit


class EpochSteps:
    """Optimiser steps on batches of items: which items a step has is a pure function of (seed, step)."""

    def __init__(self, count: int, batch: int, seed: int, unit: Callable[[Sequence[int]], Unit]) -> None:
        """``batch``: items in a step; the last step of an epoch may have fewer. ``unit``: the step of the items
        with these indices."""
        self.per_epoch = math.ceil(count / batch)
        self._count = count
        self._batch = batch
        self._seed = seed
        self._unit = unit
        self._order: tuple[int, Sequence[int]] = (-1, ())

    def unit(self, index: int) -> Unit:
        """Returns step ``index`` of the run. Metric ``epoch``, and those of the step."""
        epoch, step = divmod(index, self.per_epoch)
        if self._order[0] != epoch:
            self._order = (epoch, epoch_order(self._count, self._seed, epoch))
        unit = self._unit(self._order[1][step * self._batch : (step + 1) * self._batch])
        return Unit(unit.minibatches, {"epoch": float(epoch), **unit.metrics})


def epoch_order(count: int, seed: int, epoch: int) -> list[int]:
    """Returns a permutation of ``count`` items that depends on (seed, epoch) only."""
    return [int(index) for index in np.random.default_rng([seed, epoch]).permutation(count)]


def epoch_trainer(
    model: PreTrainedModel, settings: EpochSettings, steps_per_epoch: int, *, read: Read = chosen_logprobs
) -> Trainer:
    """Returns a trainer with the learning rate schedule of the run. ``read``: as for ``Trainer``. Raises
    TrainingError for an unsupported model."""
    total, optimiser = settings.epochs * steps_per_epoch, settings.optimiser
    return Trainer(model, optimiser, schedule(settings.decay, total, optimiser.warmup_steps), read=read)


def train_epochs(
    trainer: Trainer, steps: EpochSteps, settings: EpochSettings, options: RunOptions, *, name: str, **data: object
) -> TrainingOutcome:
    """Trains to the end; ``options.evaluate`` is called with the number of finished epochs.

    ``name``: of the algorithm. ``data``: identifies the data set, by name.
    """
    every, per_epoch = settings.evaluate_every, steps.per_epoch
    plan = RunPlan(
        units=settings.epochs * per_epoch,
        evaluate_every=None if every is None else every * per_epoch,
        checkpoint_every=settings.checkpoint_every,
        keep=settings.keep,
        patience=settings.patience,
        unit="optimiser step",
        checkpoint_seconds=settings.checkpoint_seconds,
        checkpoints_kept=settings.checkpoints_kept,
    )
    identity = identity_of(trainer, name, settings, seed=options.seed, **data)
    if (evaluate := options.evaluation) is not None:
        options = replace(options, evaluate=lambda units: evaluate(units // per_epoch))
    return Run(trainer, steps, plan, identity, options).finish()
