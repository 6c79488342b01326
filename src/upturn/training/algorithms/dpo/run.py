"""Direct preference optimisation (arXiv 2305.18290) on a fixed set of pairs.

A pair weighs the same in every step: a step's loss is divided by the number of pairs of a full step.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.records import PreferencePair
from upturn.training.algorithms.dpo.settings import DpoSettings
from upturn.training.algorithms.epochs import EpochSteps, epoch_trainer, train_epochs
from upturn.training.algorithms.sft import rows_digest
from upturn.training.data import PairRows, add_reference, pair_rows, token_count
from upturn.training.evaluation_result import Evaluate, EvaluationResult
from upturn.training.losses import CrossEntropy, PairedPreference, pair_losses
from upturn.training.outcome import TrainingOutcome
from upturn.training.pair_settings import PairObjectiveSettings
from upturn.training.row import FloatArray, TrainingRow
from upturn.training.runs import RunOptions, check_evaluation
from upturn.training.scorer import Scorer
from upturn.training.stream import Minibatch, Stream, Unit


class PairBatches:
    """Minibatches of pairs: a stream of the pairs, and with a supervised term one of the chosen sides, each with
    its own denominator."""

    def __init__(self, pairs: Sequence[PairRows], batch_pairs: int, settings: PairObjectiveSettings) -> None:
        self.pairs = pairs
        self.size = min(batch_pairs, len(pairs))
        self._sft_coefficient = settings.sft_coefficient
        self._objective = PairedPreference(
            settings.kind, beta=settings.beta, label_smoothing=settings.label_smoothing
        )
        self._chosen_tokens = token_count(row for pair in pairs for row in pair.chosen)

    def minibatch(self, indices: Sequence[int]) -> Minibatch:
        """Returns the streams of the pairs with these indices."""
        pairs = [self.pairs[index] for index in indices]
        streams = [Stream([row for pair in pairs for row in pair.rows], self._objective, float(self.size))]
        if self._sft_coefficient is not None:
            tokens = self._chosen_tokens * self.size / len(self.pairs)
            chosen = [row for pair in pairs for row in pair.chosen]
            streams.append(Stream(chosen, CrossEntropy(), tokens / self._sft_coefficient))
        return streams


def run_dpo(
    model: PreTrainedModel, pairs: Sequence[PreferencePair], settings: DpoSettings, options: RunOptions
) -> TrainingOutcome:
    """Trains the model in place on ``pairs``; resumes from the options' folder.

    A unit is one optimiser step. ``evaluate`` is called with the number of finished *epochs*, first with 0;
    held-out pairs may take its place, with their negative mean loss as the score, −log 2 at first. A reference that
    was not recorded is computed once, before the first step. Resuming needs the model with its initial weights, the
    same pairs, settings and seed. Raises TrainingError, also for unusable pairs."""
    check_evaluation(options.evaluate, settings.evaluate_every)
    rows = pair_rows(pairs, settings.objective, settings.reference)
    trainer = epoch_trainer(model, settings, math.ceil(len(rows) / settings.batch_pairs))
    data = {"pairs": pairs_digest(rows)}
    if isinstance(held_out := options.evaluate, Sequence):
        _check_unseen(pairs, held_out)
        held_out_rows = pair_rows(held_out, settings.objective, settings.reference)
        data["held-out pairs"] = pairs_digest(held_out_rows)
        options = replace(options, evaluate=_held_out_evaluation(held_out_rows, settings, trainer.score))
    steps = pair_steps(rows, settings, options.seed, trainer.score)
    return train_epochs(trainer, steps, settings, options, name="dpo", **data)


def pair_steps(pairs: Sequence[PairRows], settings: DpoSettings, seed: int, scorer: Scorer) -> EpochSteps:
    """Returns optimiser steps on the pairs, epoch after epoch. ``scorer``: of the weights before training; is
    called here, and not later, unless the reference was recorded."""
    batches = PairBatches(_with_reference(pairs, settings, scorer), settings.batch_pairs, settings.objective)
    return EpochSteps(len(pairs), settings.batch_pairs, seed, lambda indices: Unit([batches.minibatch(indices)]))


def _with_reference(pairs: Sequence[PairRows], settings: DpoSettings, scorer: Scorer) -> Sequence[PairRows]:
    return add_reference(pairs, scorer) if settings.reference == "initial" else pairs


def _held_out_evaluation(pairs: Sequence[PairRows], settings: DpoSettings, scorer: Scorer) -> Evaluate:
    """Evaluates minus the mean loss of these pairs. ``scorer``: of the current weights, here the initial ones."""
    pairs, objective = _with_reference(pairs, settings, scorer), settings.objective

    def evaluate(_: int) -> EvaluationResult:
        scores = iter(scorer([row for pair in pairs for row in pair.rows]))
        margins = [sum(_row_margin(row, next(scores)) for row in pair.rows) for pair in pairs]
        losses = pair_losses(
            torch.tensor(margins, dtype=torch.float64),
            objective.kind,
            beta=objective.beta,
            label_smoothing=objective.label_smoothing,
        )
        measure = "minus the mean loss of pairs that were held out"
        return EvaluationResult(-float(losses.mean()), tasks=len(pairs), measure=measure)

    return evaluate


def _row_margin(row: TrainingRow, score: FloatArray) -> float:
    """The row's part of its pair's margin."""
    assert row.reference_logprobs is not None
    return float(np.sum(row.weights.astype(np.float64) * (score.astype(np.float64) - row.reference_logprobs)))


def _check_unseen(pairs: Sequence[PreferencePair], held_out: Sequence[PreferencePair]) -> None:
    trained = {name for pair in pairs for name in (pair.chosen.id, pair.rejected.id)}
    for pair in held_out:
        for name in (pair.chosen.id, pair.rejected.id):
            if name in trained:
                raise TrainingError(
                    f"held-out pair {pair.id!r} holds trajectory {name!r}, which is trained on too, so its loss is "
                    "no held-out loss. Leave it out on one side"
                )


def pairs_digest(pairs: Sequence[PairRows]) -> str:
    """Returns a hash of the pairs in their order, including recorded reference log-probs."""
    rows = [row for pair in pairs for row in pair.rows]
    digest = hashlib.sha256(rows_digest(rows).encode())
    for row in rows:
        digest.update(repr(row.rollout).encode())
        if row.reference_logprobs is not None:
            digest.update(row.reference_logprobs.tobytes())
    return digest.hexdigest()
