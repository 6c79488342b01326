"""Kahneman-Tversky optimisation (arXiv 2402.01306): attempts that people rated one by one, thumbs up or down.

An attempt counts for what it is beyond a reference point z, an estimate of KL(π ‖ π_ref) that the batch's own
prompts and continuations give: each prompt with the continuation of another attempt, z = max(0, the mean of
log π/π_ref over them), without gradient. Departures from the paper: which continuation a prompt gets is drawn once
for all, one of another task where there is one, so that the reference needs no second model in memory; and of
attempts in several rows the first ones are joined, cut to the longest row's length.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.records import RatedTrajectory
from upturn.training.algorithms.epochs import EpochRun, Epochs, EpochSteps
from upturn.training.algorithms.kto.settings import KtoSettings
from upturn.training.algorithms.sft import rows_digest
from upturn.training.losses import RatedPreference
from upturn.training.outcome import TrainingOutcome
from upturn.training.row import FloatArray, TrainingRow, turn_rows
from upturn.training.runs import RunOptions, check_evaluation
from upturn.training.scorer import Scorer
from upturn.training.stream import Stream, Unit

_MISMATCH_STREAM = 0x4B54
"""Keeps the draw of mismatched continuations apart from the order of the epochs, which has the same seed."""


def run_kto(
    model: PreTrainedModel,
    rated: Sequence[RatedTrajectory],
    settings: KtoSettings,
    options: RunOptions,
) -> TrainingOutcome:
    """Trains the model in place on rated attempts, sampled and rendered alike; resumes from the options' folder.

    A unit is one optimiser step. ``evaluate`` is called with the number of finished *epochs*, first with 0. The
    reference is the model before training. A step may hold attempts of one kind only; a run may not. Resuming needs
    the model as it was before training, the same attempts, settings and seed. Raises TrainingError, also for
    attempts without written tokens, attempts rated twice, and ratings that are all alike.
    """
    check_evaluation(options.evaluation, settings.evaluate_every)
    told = digest(rated)
    trainer = Epochs(len(rated), settings.batch_trajectories, settings).trainer(model)
    run = EpochRun("kto", options.seed, options.folder, options.evaluation, options.progress)
    return run.finish(trainer, rated_steps(rated, settings, options.seed, trainer.score), ratings=told)


def rated_steps(rated: Sequence[RatedTrajectory], settings: KtoSettings, seed: int, scorer: Scorer) -> EpochSteps:
    """The rated attempts as optimiser steps, epoch after epoch. ``scorer``: of the weights as they are whenever it
    is asked, here of those before training."""
    attempts = rated_rows(rated)
    batches = RatedBatches(attempts, mismatched(rated, attempts, seed), settings, scorer=scorer)
    return EpochSteps(Epochs(len(rated), settings.batch_trajectories, settings), seed, batches.unit)


def digest(rated: Sequence[RatedTrajectory]) -> str:
    """The identity of rated attempts in their order. Raises TrainingError for such as cannot be learned from."""
    return rows_digest([row for rows in rated_rows(rated) for row in rows])


class RatedBatches:
    """Rated attempts as weight streams, step by step. Made with the weights before training, the reference's."""

    def __init__(
        self,
        attempts: Sequence[Sequence[TrainingRow]],
        unrelated: Sequence[TrainingRow],
        settings: KtoSettings,
        *,
        scorer: Scorer,
    ) -> None:
        """``unrelated``: of each attempt, its prompt with another's continuation. ``scorer``: of the weights as
        they are whenever it is asked."""
        found = iter(scorer([row for rows in attempts for row in rows]))
        self._attempts = [[replace(row, reference_logprobs=next(found)) for row in rows] for rows in attempts]
        self._unrelated = unrelated
        self._expected = scorer(unrelated)
        self._scorer = scorer
        self._settings = settings
        self._size = min(settings.batch_trajectories, len(attempts))

    def unit(self, chosen: Sequence[int]) -> Unit:
        """The step of the attempts with these numbers. Metric ``reference_point``: z."""
        settings = self._settings
        scores = self._scorer([self._unrelated[each] for each in chosen])
        moved = [_gap(score, self._expected[each]) for score, each in zip(scores, chosen, strict=True)]
        point = max(0.0, sum(moved) / len(moved))
        objective = RatedPreference(
            beta=settings.beta,
            desirable=settings.desirable_weight,
            undesirable=settings.undesirable_weight,
            reference_point=point,
        )
        rows = [row for each in chosen for row in self._attempts[each]]
        return Unit([[Stream(rows, objective, float(self._size))]], {"reference_point": point})


def _gap(score: FloatArray, expected: FloatArray) -> float:
    return float(np.sum(score.astype(np.float64) - expected))


def mismatched(
    rated: Sequence[RatedTrajectory], attempts: Sequence[Sequence[TrainingRow]], seed: int
) -> list[TrainingRow]:
    """Of each attempt, its prompt with the continuation of another: the next one at another task, in an order drawn
    with the seed; where all are at one task, the next one."""
    order = np.random.default_rng([seed, _MISMATCH_STREAM]).permutation(len(rated)).tolist()
    longest = max(len(row.token_ids) for rows in attempts for row in rows)
    found: dict[int, TrainingRow] = {}
    for place, number in enumerate(order):
        others = (order[(place + step) % len(order)] for step in range(1, len(order)))
        task = rated[number].trajectory.task_id
        following = order[(place + 1) % len(order)]
        other = next((each for each in others if rated[each].trajectory.task_id != task), following)
        found[number] = _joined(attempts[number][0], attempts[other][0], longest)
    return [found[number] for number in range(len(rated))]


def _joined(prompt: TrainingRow, continuation: TrainingRow, longest: int) -> TrainingRow:
    """What stands before the first written token of one row, and the other row from its first written token on."""
    start, begin = int(prompt.positions[0]), int(continuation.positions[0])
    tokens = np.concatenate([prompt.token_ids[:start], continuation.token_ids[begin:]])[:longest]
    positions = continuation.positions - begin + start
    positions = positions[positions < len(tokens)]
    name = f"{prompt.trajectory_id} with {continuation.trajectory_id}"
    return TrainingRow(name, tokens, positions, np.ones(len(positions), dtype=np.float32), None)


def rated_rows(rated: Sequence[RatedTrajectory]) -> list[tuple[TrainingRow, ...]]:
    """By attempt; weights are +1 on good ones and −1 on bad ones. Raises TrainingError."""
    kinds = {each.is_desirable for each in rated}
    if len(kinds) < 2:
        shown = "none are rated" if not rated else f"all {len(rated)} are rated {'good' if kinds.pop() else 'bad'}"
        raise TrainingError(
            f"learning from ratings needs good and bad attempts, {shown}; collect the other kind, or train on good "
            "ones alone with SFT"
        )
    seen: set[str] = set()
    found = []
    for each in rated:
        name = each.trajectory.id
        rows = turn_rows(each.trajectory, weight=1.0 if each.is_desirable else -1.0)
        if name in seen:
            raise TrainingError(f"trajectory {name!r} is rated twice; settle its ratings to one, or leave it out")
        if not rows:
            raise TrainingError(
                f"trajectory {name!r} is rated but holds no written tokens; render its text to token rows first, "
                "or leave it out"
            )
        seen.add(name)
        found.append(rows)
    return found
