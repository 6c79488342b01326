"""Kahneman-Tversky optimisation (arXiv 2402.01306) on trajectories with thumbs-up/down ratings.

A trajectory's gain counts relative to a reference point z, an estimate of KL(π ‖ π_ref) from the batch's own
prompts and continuations: each prompt is joined with the continuation of another trajectory, and z = max(0, the
mean of log π/π_ref over them), without gradient. Departures from the paper: the continuation of a prompt is drawn
once for the whole run, from another task if there is one, so that the reference needs no second model in memory; of
trajectories with several rows the first ones are joined, cut to the longest row's length."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.records import RatedTrajectory
from upturn.training.algorithms.epochs import EpochSteps, epoch_trainer, train_epochs
from upturn.training.algorithms.kto.settings import KtoSettings
from upturn.training.algorithms.sft import rows_digest
from upturn.training.losses import RatedPreference
from upturn.training.outcome import TrainingOutcome
from upturn.training.row import TrainingRow, turn_rows
from upturn.training.runs import RunOptions, check_evaluation
from upturn.training.scorer import Scorer
from upturn.training.stream import Stream, Unit

_MISMATCH_STREAM = 0x4B54
"""Separates the random draw of mismatched continuations from the order of the epochs, which has the same seed."""


def run_kto(
    model: PreTrainedModel, rated: Sequence[RatedTrajectory], settings: KtoSettings, options: RunOptions
) -> TrainingOutcome:
    """Trains the model in place on rated trajectories, sampled or rendered; resumes from the options' folder.

    A unit is one optimiser step. ``evaluate`` is called with the number of finished *epochs*, first with 0. The
    reference is the model before training. A step may have ratings of one kind only, a run may not. Resuming needs
    the model with its initial weights, the same trajectories, settings and seed. Raises TrainingError, also for
    trajectories without written tokens or rated twice, and for ratings that are all equal."""
    check_evaluation(options.evaluation, settings.evaluate_every)
    digest = ratings_digest(rated)
    trainer = epoch_trainer(model, settings, math.ceil(len(rated) / settings.batch_trajectories))
    steps = rated_steps(rated, settings, options.seed, trainer.score)
    return train_epochs(trainer, steps, settings, options, name="kto", ratings=digest)


def rated_steps(rated: Sequence[RatedTrajectory], settings: KtoSettings, seed: int, scorer: Scorer) -> EpochSteps:
    """Returns optimiser steps on the rated trajectories, epoch after epoch. ``scorer``: of the current weights,
    here those before training."""
    trajectories = rated_rows(rated)
    batches = RatedBatches(trajectories, mismatch_rows(rated, trajectories, seed), settings, scorer=scorer)
    return EpochSteps(len(rated), settings.batch_trajectories, seed, batches.unit)


def ratings_digest(rated: Sequence[RatedTrajectory]) -> str:
    """Returns a hash of the rated trajectories in their order. Raises TrainingError for unusable ones."""
    return rows_digest([row for rows in rated_rows(rated) for row in rows])


class RatedBatches:
    """Rated trajectories as weight streams, step by step. Must be created with the weights of the reference."""

    def __init__(
        self,
        trajectories: Sequence[Sequence[TrainingRow]],
        mismatched: Sequence[TrainingRow],
        settings: KtoSettings,
        *,
        scorer: Scorer,
    ) -> None:
        """``trajectories``: the rows of each. ``mismatched``: its prompt with another's continuation. ``scorer``:
        of the current weights."""
        scores = iter(scorer([row for rows in trajectories for row in rows]))
        self._trajectories = [
            [replace(row, reference_logprobs=next(scores)) for row in rows] for rows in trajectories
        ]
        self._mismatched = mismatched
        self._mismatched_reference = scorer(mismatched)
        self._scorer = scorer
        self._settings = settings
        self._size = min(settings.batch_trajectories, len(trajectories))

    def unit(self, indices: Sequence[int]) -> Unit:
        """Returns the step of the trajectories with these indices. Metric ``reference_point``: z."""
        settings = self._settings
        scores = self._scorer([self._mismatched[index] for index in indices])
        gaps = [
            float(np.sum(score.astype(np.float64) - self._mismatched_reference[index]))
            for score, index in zip(scores, indices, strict=True)
        ]
        point = max(0.0, sum(gaps) / len(gaps))
        objective = RatedPreference(
            beta=settings.beta,
            desirable=settings.desirable_weight,
            undesirable=settings.undesirable_weight,
            reference_point=point,
        )
        rows = [row for index in indices for row in self._trajectories[index]]
        return Unit([[Stream(rows, objective, float(self._size))]], {"reference_point": point})


def mismatch_rows(
    rated: Sequence[RatedTrajectory], trajectories: Sequence[Sequence[TrainingRow]], seed: int
) -> list[TrainingRow]:
    """Returns for each trajectory its prompt with the continuation of another: the next one of another task, in an
    order drawn from the seed; with a single task the next one."""
    order = np.random.default_rng([seed, _MISMATCH_STREAM]).permutation(len(rated)).tolist()
    longest = max(len(row.token_ids) for rows in trajectories for row in rows)
    mismatched: dict[int, TrainingRow] = {}
    for position, number in enumerate(order):
        others = order[position + 1 :] + order[:position]
        task = rated[number].trajectory.task_id
        following = order[(position + 1) % len(order)]
        other = next((index for index in others if rated[index].trajectory.task_id != task), following)
        mismatched[number] = _join(trajectories[number][0], trajectories[other][0], longest)
    return [mismatched[index] for index in range(len(rated))]


def _join(prompt: TrainingRow, continuation: TrainingRow, longest: int) -> TrainingRow:
    """The tokens before the first written one of one row, and those from the first written one of the other row."""
    stop, start = int(prompt.positions[0]), int(continuation.positions[0])
    tokens = np.concatenate([prompt.token_ids[:stop], continuation.token_ids[start:]])[:longest]
    positions = continuation.positions - start + stop
    positions = positions[positions < len(tokens)]
    name = f"{prompt.trajectory_id} with {continuation.trajectory_id}"
    return TrainingRow(name, tokens, positions, np.ones(len(positions), dtype=np.float32), None)


def rated_rows(rated: Sequence[RatedTrajectory]) -> list[tuple[TrainingRow, ...]]:
    """Returns the rows of each trajectory; weights are +1 for good ones and −1 for bad ones. Raises
    TrainingError."""
    kinds = {rating.is_desirable for rating in rated}
    if len(kinds) < 2:
        shown = "none are rated" if not rated else f"all {len(rated)} are rated {'good' if kinds.pop() else 'bad'}"
        raise TrainingError(
            f"training on ratings needs good and bad trajectories, {shown}; collect the other kind, or train on "
            "good ones alone with SFT"
        )
    all_rows: dict[str, tuple[TrainingRow, ...]] = {}
    for rating in rated:
        name = rating.trajectory.id
        rows = turn_rows(rating.trajectory, weight=1.0 if rating.is_desirable else -1.0)
        if name in all_rows:
            raise TrainingError(f"trajectory {name!r} is rated twice; resolve its ratings to one, or leave it out")
        if not rows:
            raise TrainingError(
                f"trajectory {name!r} is rated but has no written tokens; render its text to token rows first, or "
                "leave it out"
            )
        all_rows[name] = rows
    return list(all_rows.values())
