"""The second half of a policy gradient: weighted rows become optimiser steps.

Order of an iteration: the trainer's log-probs and the reference's are computed where the settings need them
(``mismatch``, ``kl``), a teacher's scores are added to the weights (``teacher_signal``), and the groups of rows are
split over minibatches, once for each pass.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from upturn.errors import TrainingError
from upturn.training.algorithms.teacher_signal import Teacher, taught_rows
from upturn.training.loss import Objective
from upturn.training.losses import AdaptiveCoefficient, WithTeacher, k3, policy_objective
from upturn.training.optimisation import (
    SampledCounts,
    WrittenLogprobs,
    denominator,
    mismatch,
    token_scales,
    written_tokens,
)
from upturn.training.policy_settings import MismatchSettings, ObjectiveSettings, PolicyGradientSettings
from upturn.training.row import TrainingRow
from upturn.training.scorer import Scorer
from upturn.training.stream import NO_STATE, Minibatch, State, Stream, Unit

Groups = Sequence[Sequence[TrainingRow]]
"""Rows that stay in one minibatch: all of one task, which share a prefix."""


class PolicyUpdate:
    """Weighted rows as optimiser steps of the policy. Single use: one run."""

    def __init__(
        self,
        settings: PolicyGradientSettings,
        seed: int,
        *,
        scorer: Scorer | None = None,
        reference: Scorer | None = None,
        teacher: Teacher | None = None,
    ) -> None:
        """``scorer``: of the current weights, for mismatch settings. ``reference``: for a KL term. ``teacher``: its
        advantages are added to the rows' weights, or its divergence to the loss; None = none.

        Raises TrainingError where one is missing, or has no effect.
        """
        kl = settings.objective.kl
        check_both_or_neither("mismatch", settings.mismatch, "scorer", scorer)
        check_both_or_neither("objective.kl", kl, "reference", reference)
        self.settings = settings
        self.seed = seed
        self._scorer = scorer
        self._reference = reference
        self._teacher = teacher
        self._coefficient = (
            AdaptiveCoefficient(kl.coefficient, target=kl.target, horizon=kl.horizon)
            if kl is not None and kl.target is not None and kl.horizon is not None
            else None
        )

    def unit(self, index: int, groups: Groups, sampled: SampledCounts) -> Unit:
        """Returns the steps of iteration ``index``, whose loss is an average over ``sampled``.

        Groups without rows are dropped, and with a teacher rollouts that it leaves without a gradient. Metric
        ``trained_rows``, and those of mismatch, KL and teacher.
        """
        rows = [row for group in groups for row in group]
        metrics = dict[str, float]()
        reshaped = next((row for row in rows if row.is_reshaped), None)
        if reshaped is not None and self.settings.mismatch is None:
            raise TrainingError(
                f"trajectory {reshaped.trajectory_id!r} was sampled with options such as top_p, so its log-probs "
                "are not the policy's: set mismatch with weight='token' and weight_cap=2.0, or leave it out"
            )
        if rows and self._scorer is not None and self.settings.mismatch is not None:
            rows, mismatch_metrics = _recompute(rows, self._scorer, self.settings.mismatch)
            metrics |= mismatch_metrics
        coefficient = None if self._coefficient is None else self._coefficient.coefficient
        if rows and self._reference is not None:
            scores = self._reference(rows)
            rows = [replace(row, reference_logprobs=score) for row, score in zip(rows, scores, strict=True)]
            if self._coefficient is not None:
                metrics["kl_coefficient"] = self._coefficient.coefficient
                self._coefficient.update(_divergence(rows), len({row.trajectory_id for row in rows}))
        has_bonus = False
        if rows and (entropy := self.settings.objective.entropy) is not None:
            has_bonus = entropy.floor is None or _surprise(rows) < entropy.floor
            metrics["entropy_bonus"] = float(has_bonus)
        is_scored = self._teacher is not None and self._teacher.scorer is not None
        if rows and self._teacher is not None and is_scored:
            rows, teacher_metrics = taught_rows(rows, self._teacher)
            metrics |= teacher_metrics
        remaining = iter(rows)
        grouped = [list(islice(remaining, len(group))) for group in groups if group]
        objective = self.settings.objective
        if is_scored and objective.kl is None and objective.entropy is None:
            grouped = [kept for group in grouped if (kept := _with_gradient(group))]
        metrics["trained_rows"] = float(sum(map(len, grouped)))
        steps = minibatches(
            grouped,
            self._objective(coefficient, has_bonus=has_bonus),
            denominator(sampled, objective),
            count=self.settings.minibatches,
            passes=self.settings.passes,
            rng=np.random.default_rng([self.seed, index]),
            has_entropies=objective.entropy is not None,
        )
        return Unit(steps, metrics)

    def _objective(self, kl_coefficient: float | None, *, has_bonus: bool) -> Objective:
        """``kl_coefficient``: None = the settings' value."""
        objective = policy_objective(self.settings.objective, kl_coefficient, has_bonus=has_bonus)
        if self._teacher is None or self._teacher.scorer is not None:
            return objective
        return WithTeacher(objective, self._teacher.settings.coefficient)

    def state(self) -> State:
        """Returns the state other than weights and optimiser; empty without an adaptive coefficient."""
        return NO_STATE if self._coefficient is None else self._coefficient.state()

    def load_state(self, state: State) -> None:
        """Restores a state from ``state``."""
        if self._coefficient is not None:
            self._coefficient.load_state({name: float(value) for name, value in state.items()})


def minibatches(  # noqa: PLR0913  # each is a number of its own
    groups: Groups,
    objective: Objective,
    total: float,
    *,
    count: int,
    passes: int,
    rng: np.random.Generator,
    has_entropies: bool = False,
) -> list[Minibatch]:
    """Returns the groups in random order, another one in each pass, split into at most ``count`` minibatches.

    ``total``: the denominator of a whole pass, of which each minibatch has an equal share.
    """
    parts = min(count, max(1, len(groups)))
    return [
        [Stream([row for index in part for row in groups[int(index)]], objective, total / count, has_entropies)]
        for _ in range(passes)
        for part in np.array_split(rng.permutation(len(groups)), parts)
        if len(part)
    ]


def rollout_rows(
    rows: Sequence[TrainingRow], settings: ObjectiveSettings, *, is_taught: bool = False
) -> Sequence[TrainingRow]:
    """Returns the rows of one rollout with their scales; none where they have no gradient.

    A rollout is used whole or not at all, since an objective may depend on all of it. Without a KL term and an
    entropy bonus a rollout with zero weights has no gradient; ``is_taught``: a teacher's advantages are added to
    the weights later."""
    has_further_term = is_taught or settings.kl is not None or settings.entropy is not None
    if not rows or not (has_further_term or any(row.weights.any() for row in rows)):
        return ()
    shares = token_scales([len(row.positions) for row in rows], settings)
    if shares is None:
        return rows
    return [replace(row, scales=share) for row, share in zip(rows, shares, strict=True)]


def _with_gradient(group: Sequence[TrainingRow]) -> list[TrainingRow]:
    """The rows of the rollouts that have a weight other than 0."""
    rollouts = {row.rollout for row in group if row.weights.any()}
    return [row for row in group if row.rollout in rollouts]


def check_both_or_neither(setting: str, value: object, argument: str, argument_value: object) -> None:
    """Raises TrainingError when only one of a setting and an argument is None."""
    if (value is None) != (argument_value is None):
        missing, present = (argument, setting) if argument_value is None else (setting, argument)
        raise TrainingError(f"{present} without {missing} does nothing; give both or neither")


def _recompute(
    rows: Sequence[TrainingRow], scorer: Scorer, settings: MismatchSettings
) -> tuple[list[TrainingRow], dict[str, float]]:
    """Returns the rows with the trainer's log-probs as old ones, and corrections; and the mismatch metrics."""
    old = scorer(rows)
    tokens = written_tokens(rows)
    result = mismatch(WrittenLogprobs(np.concatenate(old), tokens.old_logprobs, tokens.sequences), settings)
    corrections = np.split(result.corrections, np.cumsum(list(map(len, old)))[:-1])
    return [
        replace(row, old_logprobs=logprobs, corrections=correction)
        for row, logprobs, correction in zip(rows, old, corrections, strict=True)
    ], result.metrics


def _surprise(rows: Sequence[TrainingRow]) -> float:
    """Mean of −log π_old over the written tokens: an estimate of the entropy, unbiased where π_old sampled them."""
    return -float(np.mean(written_tokens(rows).old_logprobs, dtype=np.float64))


def _divergence(rows: Sequence[TrainingRow]) -> float:
    """Mean per token of k3 between the sampler and the reference: KL(sampler ‖ reference)."""
    tokens = written_tokens(rows)
    differences = tokens.reference_logprobs.astype(np.float64) - tokens.old_logprobs
    return float(np.mean(k3(differences, np.exp(differences))))
