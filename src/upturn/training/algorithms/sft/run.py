"""Supervised fine-tuning: cross-entropy on written tokens, of sampled and rendered trajectories alike.

Every written token weighs the same in every step: a step's loss is divided by the *average* number of written
tokens of a step, not by its own, so neither a batch's company nor splitting a rollout into rows changes a token's
weight.
"""

import hashlib
import math
from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.training.algorithms.sft.settings import SftSettings
from upturn.training.evaluation_result import Assessment
from upturn.training.losses import CrossEntropy
from upturn.training.optimisation import Trainer, schedule
from upturn.training.outcome import TrainingOutcome
from upturn.training.row import TrainingRow
from upturn.training.runs import (
    Evaluate,
    Run,
    RunOptions,
    RunPlace,
    RunPlan,
    check_evaluation,
    identity_of,
)
from upturn.training.stream import Stream, Unit


def run_sft(
    model: PreTrainedModel,
    rows: Sequence[TrainingRow],
    settings: SftSettings,
    options: RunOptions,
) -> TrainingOutcome:
    """Trains the model in place on ``rows`` (duplicates count as often as they appear); resumes from the options'
    folder.

    A unit is one optimiser step. ``evaluate`` is called with the number of finished *epochs*, first with 0; rows in
    its place are held out, and the score is their negative mean loss. Resuming needs the model as it was before
    training, the same rows, settings and seed. Raises TrainingError.
    """
    if not rows:
        raise TrainingError("there are no rows to train on; supervised training needs at least one")
    check_evaluation(options.evaluate, settings.evaluate_every)
    algorithm = SupervisedSteps(rows, settings.batch_rows, options.seed)
    per_epoch = algorithm.steps_per_epoch
    total = settings.epochs * per_epoch
    trainer = Trainer(model, settings.optimiser, schedule(settings.decay, total, settings.optimiser.warmup_steps))
    plan = RunPlan(
        units=total,
        evaluate_every=None if settings.evaluate_every is None else settings.evaluate_every * per_epoch,
        checkpoint_every=settings.checkpoint_every,
        keep=settings.keep,
        patience=settings.patience,
        unit="optimiser step",
    )
    further = {"rows": rows_digest(rows)}
    if isinstance(options.evaluate, Sequence):
        _refuse_seen(rows, options.evaluate)
        further["held-out rows"] = rows_digest(options.evaluate)
    identity = identity_of(trainer, "sft", settings, seed=options.seed, **further)
    return Run(
        trainer,
        algorithm,
        plan,
        RunPlace(options.folder, identity),
        _by_epoch(options.evaluate, trainer, per_epoch),
        options.progress,
    ).finish()


def _by_epoch(
    evaluate: Evaluate | Sequence[TrainingRow] | None, trainer: Trainer, per_epoch: int
) -> Evaluate | None:
    """The evaluation as a function of finished units."""
    if isinstance(evaluate, Sequence):
        held_out = evaluate
        return lambda _: Assessment(
            -held_out_loss(trainer, held_out),
            tasks=len(held_out),
            measure="minus the mean loss (nats a written token) of rows that were held out",
        )
    return None if evaluate is None else lambda units: evaluate(units // per_epoch)


def held_out_loss(trainer: Trainer, rows: Sequence[TrainingRow]) -> float:
    """Mean −log π of the rows' written tokens under the weights as they are, each token weighing 1."""
    logprobs = trainer.score(rows)
    return -math.fsum(float(each.sum(dtype=np.float64)) for each in logprobs) / sum(map(len, logprobs))


def _refuse_seen(rows: Sequence[TrainingRow], held_out: Sequence[TrainingRow]) -> None:
    if not held_out:
        raise TrainingError("there are no held-out rows to evaluate on; give at least one, or None")
    trained = {rows_digest([row]) for row in rows}
    seen = sum(rows_digest([row]) in trained for row in held_out)
    if seen:
        raise TrainingError(
            f"{seen} of {len(held_out)} held-out rows are trained on too: their loss would say nothing of what was "
            "not seen. Leave them out on one side"
        )


class SupervisedSteps:
    """Rows as optimiser steps: which rows a step holds is a pure function of (seed, step)."""

    def __init__(self, rows: Sequence[TrainingRow], batch_rows: int, seed: int) -> None:
        self.rows = rows
        self.batch_rows = batch_rows
        self.seed = seed
        self.steps_per_epoch = math.ceil(len(rows) / batch_rows)
        written = sum(len(row.positions) for row in rows)
        self._denominator = written * batch_rows / len(rows)
        self._objective = CrossEntropy()
        self._epoch: tuple[int, Sequence[int]] = (-1, ())

    def unit(self, index: int) -> Unit:
        """Step ``index`` of the run."""
        epoch, batch = divmod(index, self.steps_per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, epoch_order(len(self.rows), self.seed, epoch))
        chosen = self._epoch[1][batch * self.batch_rows : (batch + 1) * self.batch_rows]
        stream = Stream([self.rows[each] for each in chosen], self._objective, self._denominator)
        return Unit([[stream]], {"epoch": float(epoch)})


def epoch_order(count: int, seed: int, epoch: int) -> list[int]:
    """The order of ``count`` rows in an epoch: a permutation that depends on (seed, epoch) only."""
    return [int(index) for index in np.random.default_rng([seed, epoch]).permutation(count)]


def rows_digest(rows: Sequence[TrainingRow]) -> str:
    """The identity of rows in their order."""
    found = hashlib.sha256()
    for row in rows:
        for array in (row.token_ids, row.positions, row.weights):
            found.update(len(array).to_bytes(8))
            found.update(array.tobytes())
    return found.hexdigest()
