"""Supervised fine-tuning: cross-entropy on the written tokens of sampled and rendered trajectories.

Every written token weighs the same in every step: a step's loss is divided by the *average* number of written
tokens of a step, not by its own, so neither the other rows of a batch nor splitting a rollout into rows changes a
token's weight."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.training.algorithms.epochs import EpochSteps, epoch_trainer, train_epochs
from upturn.training.algorithms.sft.settings import SftSettings
from upturn.training.data import token_count
from upturn.training.evaluation_result import EvaluationResult
from upturn.training.losses import CrossEntropy
from upturn.training.optimisation import Trainer
from upturn.training.outcome import TrainingOutcome
from upturn.training.row import TrainingRow
from upturn.training.runs import RunOptions, check_evaluation
from upturn.training.stream import Stream, Unit


def run_sft(
    model: PreTrainedModel, rows: Sequence[TrainingRow], settings: SftSettings, options: RunOptions
) -> TrainingOutcome:
    """Trains the model in place on ``rows`` (duplicates count as often as they occur); resumes from the options'
    folder.

    A unit is one optimiser step. ``evaluate`` is called with the number of finished *epochs*, first with 0;
    held-out rows may take its place, with their negative mean loss as the score. Resuming needs the model with its
    initial weights, the same rows, settings and seed. Raises TrainingError."""
    if not rows:
        raise TrainingError("there are no rows to train on; supervised training needs at least one")
    check_evaluation(options.evaluate, settings.evaluate_every)
    steps = supervised_steps(rows, settings.batch_rows, options.seed)
    trainer = epoch_trainer(model, settings, steps.per_epoch)
    data = {"rows": rows_digest(rows)}
    if isinstance(held_out := options.evaluate, Sequence):
        _check_unseen(rows, held_out)
        data["held-out rows"] = rows_digest(held_out)
        options = replace(options, evaluate=lambda _: _held_out_result(trainer, held_out))
    return train_epochs(trainer, steps, settings, options, name="sft", **data)


def supervised_steps(rows: Sequence[TrainingRow], batch_rows: int, seed: int) -> EpochSteps:
    """Returns optimiser steps on the rows, epoch after epoch."""
    objective, denominator = CrossEntropy(), token_count(rows) * batch_rows / len(rows)
    return EpochSteps(
        len(rows),
        batch_rows,
        seed,
        lambda indices: Unit([[Stream([rows[index] for index in indices], objective, denominator)]]),
    )


def _held_out_result(trainer: Trainer, rows: Sequence[TrainingRow]) -> EvaluationResult:
    measure = "minus the mean loss (nats a written token) of rows that were held out"
    return EvaluationResult(-held_out_loss(trainer, rows), tasks=len(rows), measure=measure)


def held_out_loss(trainer: Trainer, rows: Sequence[TrainingRow]) -> float:
    """Returns the mean −log π of the rows' written tokens under the current weights, each token weighing 1."""
    logprobs = trainer.score(rows)
    return -math.fsum(float(row.sum(dtype=np.float64)) for row in logprobs) / sum(map(len, logprobs))


def _check_unseen(rows: Sequence[TrainingRow], held_out: Sequence[TrainingRow]) -> None:
    if not held_out:
        raise TrainingError("there are no held-out rows to evaluate on; give at least one, or None")
    trained = {rows_digest([row]) for row in rows}
    seen = sum(rows_digest([row]) in trained for row in held_out)
    if seen:
        raise TrainingError(
            f"{seen} of {len(held_out)} held-out rows are trained on too, so their loss is no held-out loss. Leave "
            "them out on one side"
        )


def rows_digest(rows: Sequence[TrainingRow]) -> str:
    """Returns a hash of the rows in their order."""
    digest = hashlib.sha256()
    for row in rows:
        for array in (row.token_ids, row.positions, row.weights):
            digest.update(len(array).to_bytes(8))
            digest.update(array.tobytes())
    return digest.hexdigest()
