"""Training of a scalar model on the targets of turns, by binary cross-entropy.

A turn weighs the same in every step: a step's loss is divided by the average number of turns of a step.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.training.algorithms.epochs import EpochSteps, epoch_trainer, train_epochs
from upturn.training.algorithms.process_reward.settings import ProcessRewardSettings
from upturn.training.evaluation_result import EvaluationResult
from upturn.training.losses import SuccessProbability
from upturn.training.optimisation import state_values
from upturn.training.outcome import TrainingOutcome
from upturn.training.reward_models import (
    Calibration,
    JudgedTurns,
    LabelledTrajectory,
    aggregate,
    calibration,
    logistic,
    model_outputs,
)
from upturn.training.row import TrainingRow, turn_end_rows
from upturn.training.runs import RunOptions
from upturn.training.scorer import Scorer
from upturn.training.stream import Stream, Unit

MEASURE = "minus the Brier score of turns of held-out tasks"


class TurnOutputs(NamedTuple):
    """A finished training run."""

    outcome: TrainingOutcome
    held_out: Calibration | None
    """Of the kept model; None = no trajectory was held out."""


def run_process_reward(
    model: PreTrainedModel,
    labelled: Sequence[LabelledTrajectory],
    settings: ProcessRewardSettings,
    options: RunOptions,
    *,
    held_out: Sequence[LabelledTrajectory] = (),
) -> TurnOutputs:
    """Trains the model, from ``value_model``, in place on the known targets; resumes from the options' folder.

    A unit is one optimiser step. An evaluation is minus the Brier score of the ``held_out`` turns, first before
    training, where every probability is ½. ``options.evaluate`` is ignored. Resuming needs the model with its
    initial weights, the same data, settings and seed. Raises TrainingError.
    """
    rows = [labelled_rows(item) for item in labelled]
    turns = sum(len(row.positions) for part in rows for row in part)
    if not turns:
        raise TrainingError(
            f"none of the {len(labelled)} trajectories has a turn with written tokens and a target, so there is "
            "nothing to train on; use another source of targets, or a pool with trajectories in tokens"
        )
    _check_held_out(labelled, held_out, settings)
    size = min(settings.batch_trajectories, len(rows))
    trainer = epoch_trainer(model, settings, math.ceil(len(rows) / settings.batch_trajectories), read=state_values)

    def measure() -> Calibration:
        return calibration(_judged(held_out, trainer.score, settings))

    objective, denominator = SuccessProbability(), turns * size / len(rows)

    def unit(indices: Sequence[int]) -> Unit:
        chosen = [row for index in indices for row in rows[index]]
        return Unit([[Stream(chosen, objective, denominator)]] if chosen else [])

    evaluate = None if settings.evaluate_every is None else (lambda _: _result(measure(), len(held_out)))
    outcome = train_epochs(
        trainer,
        EpochSteps(len(rows), settings.batch_trajectories, options.seed, unit),
        settings,
        replace(options, evaluate=evaluate),
        name="process-reward",
        turns=_digest(rows),
        held_out_turns=_digest([labelled_rows(item) for item in held_out]),
    )
    return TurnOutputs(outcome, measure() if held_out else None)


def labelled_rows(item: LabelledTrajectory) -> tuple[TrainingRow, ...]:
    """Returns the rows of the turns with a known target, which is their weight; none where no turn has one.

    Raises TrainingError unless there is a target, in [0, 1] or None, for each turn.
    """
    name, turns = item.trajectory.id, len(item.trajectory.turns)
    if len(item.targets) != turns:
        raise TrainingError(
            f"trajectory {name!r} has {turns} turns and {len(item.targets)} targets; give one per turn, None where "
            "it is unknown"
        )
    known = {turn: target for turn, target in enumerate(item.targets) if target is not None}
    for turn, target in known.items():
        if not 0 <= target <= 1:
            raise TrainingError(
                f"turn {turn} of trajectory {name!r} has the target {target!r}; it must be in [0, 1]"
            )
    return turn_end_rows(item.trajectory, known)


def _judged(
    labelled: Sequence[LabelledTrajectory], scorer: Scorer, settings: ProcessRewardSettings
) -> list[JudgedTurns]:
    """Trajectories without a known target are omitted."""
    rows = [labelled_rows(item) for item in labelled]
    judged = []
    for item, part, outputs in zip(labelled, rows, model_outputs(scorer, rows), strict=True):
        if part:
            probabilities = logistic(outputs.tolist())
            targets = np.concatenate([row.weights for row in part]).tolist()
            score = aggregate(probabilities, settings.aggregation)
            judged.append(JudgedTurns(item.trajectory.task_id, probabilities, targets, score, item.is_success))
    return judged


def _result(measured: Calibration, count: int) -> EvaluationResult:
    figures = {
        "loss": measured.loss,
        "base_brier": measured.base_brier,
        "calibration_error": measured.calibration_error,
        "separation": measured.separation,
    }
    return EvaluationResult(
        -measured.brier.mean,
        low=-measured.brier.high,
        high=-measured.brier.low,
        tasks=count,
        measure=MEASURE,
        figures={name: value for name, value in figures.items() if value is not None},
    )


def _check_held_out(
    labelled: Sequence[LabelledTrajectory], held_out: Sequence[LabelledTrajectory], settings: ProcessRewardSettings
) -> None:
    if not any(labelled_rows(item) for item in held_out) and (held_out or settings.evaluate_every is not None):
        raise TrainingError(
            f"evaluate_every={settings.evaluate_every!r} with {len(held_out)} held-out trajectories, none with a "
            "known target, has nothing to evaluate on; give some, or none and evaluate_every=None"
        )
    trained = {item.trajectory.task_id for item in labelled}
    for item in held_out:
        if item.trajectory.task_id in trained:
            raise TrainingError(
                f"held-out trajectory {item.trajectory.id!r} is of task {item.trajectory.task_id!r}, which is "
                "trained on too; hold out all trajectories of a task, or none"
            )


def _digest(rows: Sequence[Sequence[TrainingRow]]) -> str:
    """A hash of the trajectories in their order, with targets."""
    digest = hashlib.sha256()
    for row in (row for part in rows for row in part):
        digest.update(row.trajectory_id.encode())
        for array in (row.token_ids, row.positions, row.weights):
            digest.update(array.tobytes())
    return digest.hexdigest()
