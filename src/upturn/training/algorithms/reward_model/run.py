"""Bradley–Terry training of a scalar model on a fixed set of pairs.

A pair weighs the same in every step: a step's loss is divided by the number of pairs of a full step.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.records import PreferencePair, Trajectory, pair_problem
from upturn.training.algorithms.epochs import EpochSteps, epoch_trainer, train_epochs
from upturn.training.algorithms.reward_model.settings import RewardModelSettings
from upturn.training.evaluation_result import EvaluationResult
from upturn.training.losses import RankedScores
from upturn.training.optimisation import state_values
from upturn.training.outcome import TrainingOutcome
from upturn.training.reward_models import RankedPair, Ranking, model_outputs, ranking, read_rows
from upturn.training.row import TrainingRow, written_count
from upturn.training.runs import RunOptions
from upturn.training.scorer import Scorer
from upturn.training.stream import Stream, Unit

MEASURE = "accuracy on pairs of held-out tasks"


class PairOutputs(NamedTuple):
    """A finished training run."""

    outcome: TrainingOutcome
    mean: float
    """Of the kept model's outputs over both sides of the training pairs."""
    held_out: Ranking | None
    """Of the kept model; None = no pair was held out."""


def run_reward_model(
    model: PreTrainedModel,
    pairs: Sequence[PreferencePair],
    settings: RewardModelSettings,
    options: RunOptions,
    *,
    held_out: Sequence[PreferencePair] = (),
) -> PairOutputs:
    """Trains the model, from ``value_model``, in place on ``pairs``; resumes from the options' folder.

    A unit is one optimiser step. An evaluation is the accuracy on the ``held_out`` pairs, first before training,
    where all outputs are equal and it is ½. ``options.evaluate`` is ignored. Resuming needs the model with its
    initial weights, the same pairs, settings and seed. Raises TrainingError, also for unusable pairs.
    """
    rows = pair_ends(pairs, settings.margin_coefficient)
    _check_held_out(pairs, held_out, settings)
    trainer = epoch_trainer(model, settings, math.ceil(len(rows) / settings.batch_pairs), read=state_values)

    def measure() -> Ranking:
        return ranking(_ranked(held_out, trainer.score))

    objective = RankedScores(centring=settings.centring)
    denominator = float(min(settings.batch_pairs, len(rows)))

    def unit(indices: Sequence[int]) -> Unit:
        return Unit([[Stream([row for index in indices for row in rows[index]], objective, denominator)]])

    data = {"pairs": _digest(rows), "held-out pairs": _digest(pair_ends(held_out, 0.0) if held_out else [])}
    evaluate = None if settings.evaluate_every is None else (lambda _: _result(measure(), len(held_out)))
    outcome = train_epochs(
        trainer,
        EpochSteps(len(rows), settings.batch_pairs, options.seed, unit),
        settings,
        replace(options, evaluate=evaluate),
        name="reward-model",
        **data,
    )
    outputs = np.concatenate(model_outputs(trainer.score, [[row] for sides in rows for row in sides]))
    return PairOutputs(outcome, float(outputs.mean()), measure() if held_out else None)


def pair_ends(pairs: Sequence[PreferencePair], margin_coefficient: float) -> list[tuple[TrainingRow, TrainingRow]]:
    """Returns the chosen and the rejected row of each pair, which the model reads at the last written token.

    Raises TrainingError for no pairs, the problems of ``pair_problem``, pairs of single turns, and a margin
    coefficient without any margin.
    """
    if not pairs:
        raise TrainingError("there are no pairs to train on; a reward model needs at least one")
    if margin_coefficient and all(pair.margin is None for pair in pairs):
        raise TrainingError(
            f"margin_coefficient={margin_coefficient!r} has no effect: none of the {len(pairs)} pairs has a margin"
        )
    rows = []
    for pair in pairs:
        problem = pair_problem(pair)
        if pair.chosen_turns is not None or pair.rejected_turns is not None:
            problem = f"pair {pair.id!r} compares single turns; a reward model needs whole trajectories"
        if problem is not None:
            raise TrainingError(problem)
        margin = margin_coefficient * (pair.margin or 0.0)
        rows.append((_end(pair.chosen, pair.id, 1.0, margin), _end(pair.rejected, pair.id, -1.0, 0.0)))
    return rows


def _end(trajectory: Trajectory, pair: str, weight: float, reference: float) -> TrainingRow:
    (row,) = read_rows(trajectory, "outcome")
    sign = np.full_like(row.weights, weight)
    return replace(row, pair=pair, weights=sign, reference_logprobs=np.full_like(row.weights, reference))


def _ranked(pairs: Sequence[PreferencePair], scorer: Scorer) -> list[RankedPair]:
    sides = [side for pair in pairs for side in (pair.chosen, pair.rejected)]
    outputs = [float(part[0]) for part in model_outputs(scorer, [read_rows(side, "outcome") for side in sides])]
    return [
        RankedPair(pair.chosen.task_id, chosen, rejected, written_count(pair.chosen), written_count(pair.rejected))
        for pair, chosen, rejected in zip(pairs, outputs[::2], outputs[1::2], strict=True)
    ]


def _result(measured: Ranking, count: int) -> EvaluationResult:
    figures = {
        "loss": measured.loss,
        "longer_preferred": measured.longer_preferred,
        "length_correlation": measured.length_correlation,
    }
    return EvaluationResult(
        measured.accuracy.mean,
        low=measured.accuracy.low,
        high=measured.accuracy.high,
        tasks=count,
        measure=MEASURE,
        figures={name: value for name, value in figures.items() if value is not None},
    )


def _check_held_out(
    pairs: Sequence[PreferencePair], held_out: Sequence[PreferencePair], settings: RewardModelSettings
) -> None:
    if not held_out and settings.evaluate_every is not None:
        raise TrainingError(
            f"evaluate_every={settings.evaluate_every!r} without held-out pairs has nothing to evaluate on; give "
            "some, or evaluate_every=None"
        )
    trained = {pair.chosen.task_id for pair in pairs}
    for pair in held_out:
        if pair.chosen.task_id in trained:
            raise TrainingError(
                f"held-out pair {pair.id!r} is of task {pair.chosen.task_id!r}, which is trained on too; hold out "
                "all pairs of a task, or none"
            )


def _digest(rows: Sequence[tuple[TrainingRow, TrainingRow]]) -> str:
    """A hash of the pairs in their order, margins included."""
    digest = hashlib.sha256()
    for row in (row for sides in rows for row in sides):
        digest.update(repr(row.rollout).encode())
        for array in (row.token_ids, row.positions, row.reference_logprobs):
            digest.update(np.asarray(array).tobytes())
    return digest.hexdigest()
