"""Direct preference optimisation (arXiv 2305.18290) on pairs that are there before training.

A pair weighs the same in every step: a step's loss is divided by the number of pairs that a full step has.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.records import PreferencePair
from upturn.training.algorithms.dpo.settings import DpoSettings
from upturn.training.algorithms.epochs import EpochRun, Epochs, EpochSteps
from upturn.training.algorithms.sft import rows_digest
from upturn.training.data import PairRows, pair_rows, refer, token_count
from upturn.training.evaluation_result import Assessment
from upturn.training.losses import CrossEntropy, PairedPreference, pair_losses
from upturn.training.outcome import TrainingOutcome
from upturn.training.pair_settings import PairObjectiveSettings
from upturn.training.row import FloatArray, TrainingRow
from upturn.training.runs import Evaluate, RunOptions, check_evaluation
from upturn.training.scorer import Scorer
from upturn.training.stream import Minibatch, Stream, Unit


class PairBatches:
    """Minibatches of pairs: the pairs' stream, and where it is asked for one of the better sides, each with its own
    denominator."""

    def __init__(self, pairs: Sequence[PairRows], batch_pairs: int, settings: PairObjectiveSettings) -> None:
        self.pairs = pairs
        self.size = min(batch_pairs, len(pairs))
        self._settings = settings
        self._objective = PairedPreference(
            settings.kind, beta=settings.beta, label_smoothing=settings.label_smoothing
        )
        self._better = token_count(row for pair in pairs for row in pair.better)

    def minibatch(self, chosen: Sequence[int]) -> Minibatch:
        """Of the pairs with these numbers."""
        pairs = [self.pairs[each] for each in chosen]
        streams = [Stream([row for pair in pairs for row in pair.rows], self._objective, float(self.size))]
        coefficient = self._settings.sft_coefficient
        if coefficient is not None:
            tokens = self._better * self.size / len(self.pairs)
            better = [row for pair in pairs for row in pair.better]
            streams.append(Stream(better, CrossEntropy(), tokens / coefficient))
        return streams


def run_dpo(
    model: PreTrainedModel,
    pairs: Sequence[PreferencePair],
    settings: DpoSettings,
    options: RunOptions,
) -> TrainingOutcome:
    """Trains the model in place on ``pairs``; resumes from the options' folder.

    A unit is one optimiser step. ``evaluate`` is called with the number of finished *epochs*, first with 0; pairs
    in its place are held out, and the score is their negative mean loss, −log 2 at first. The reference is computed
    once, before the first step, unless it was recorded. Resuming needs the model as it was before training, the
    same pairs, settings and seed. Raises TrainingError, also for pairs that nobody can learn from.
    """
    check_evaluation(options.evaluate, settings.evaluate_every)
    found = pair_rows(pairs, settings.objective, settings.reference)
    trainer = Epochs(len(found), settings.batch_pairs, settings).trainer(model)
    learned = {"pairs": digest(found)}
    watch = options.evaluate
    if isinstance(watch, Sequence):
        _refuse_seen(pairs, watch)
        held_out = pair_rows(watch, settings.objective, settings.reference)
        learned["held-out pairs"] = digest(held_out)
        watch = held_out_evaluation(_referred(held_out, settings, trainer.score), settings, trainer.score)
    run = EpochRun("dpo", options.seed, options.folder, watch, options.progress)
    return run.finish(trainer, pair_steps(found, settings, options.seed, trainer.score), **learned)


def pair_steps(pairs: Sequence[PairRows], settings: DpoSettings, seed: int, scorer: Scorer) -> EpochSteps:
    """The pairs as optimiser steps, epoch after epoch. ``scorer``: of the weights before training; it is asked
    here, and not later, unless the reference was recorded."""
    found = _referred(pairs, settings, scorer)
    batches = PairBatches(found, settings.batch_pairs, settings.objective)
    epochs = Epochs(len(pairs), settings.batch_pairs, settings)
    return EpochSteps(epochs, seed, lambda chosen: Unit([batches.minibatch(chosen)]))


def _referred(pairs: Sequence[PairRows], settings: DpoSettings, scorer: Scorer) -> Sequence[PairRows]:
    return refer(pairs, scorer) if settings.reference == "initial" else pairs


def held_out_evaluation(pairs: Sequence[PairRows], settings: DpoSettings, scorer: Scorer) -> Evaluate:
    """Minus the mean loss of these pairs, which have their reference. ``scorer``: of the weights as they are."""
    objective = settings.objective

    def evaluate(_: int) -> Assessment:
        scores = iter(scorer([row for pair in pairs for row in pair.rows]))
        margins = [sum(_moved(row, next(scores)) for row in pair.rows) for pair in pairs]
        losses = pair_losses(
            torch.tensor(margins, dtype=torch.float64),
            objective.kind,
            beta=objective.beta,
            label_smoothing=objective.label_smoothing,
        )
        measure = "minus the mean loss of pairs that were held out"
        return Assessment(-float(losses.mean()), tasks=len(pairs), measure=measure)

    return evaluate


def _moved(row: TrainingRow, score: FloatArray) -> float:
    """What a row adds to its pair's margin."""
    assert row.reference_logprobs is not None
    return float(np.sum(row.weights.astype(np.float64) * (score.astype(np.float64) - row.reference_logprobs)))


def _refuse_seen(pairs: Sequence[PreferencePair], held_out: Sequence[PreferencePair]) -> None:
    seen = {name for pair in pairs for name in (pair.chosen.id, pair.rejected.id)}
    for pair in held_out:
        for name in (pair.chosen.id, pair.rejected.id):
            if name in seen:
                raise TrainingError(
                    f"held-out pair {pair.id!r} holds trajectory {name!r}, which is trained on too: its loss would "
                    "say nothing of what was not seen. Leave it out on one side"
                )


def digest(pairs: Sequence[PairRows]) -> str:
    """The identity of pairs in their order, with the reference where one was recorded."""
    rows = [row for pair in pairs for row in pair.rows]
    found = hashlib.sha256(rows_digest(rows).encode())
    for row in rows:
        found.update(repr(row.rollout).encode())
        if row.reference_logprobs is not None:
            found.update(row.reference_logprobs.tobytes())
    return found.hexdigest()
