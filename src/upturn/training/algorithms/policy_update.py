"""The second half of a policy gradient, whatever gave the written tokens their weights: optimiser steps.

Order of an iteration: the trainer's own log-probs and the reference's are asked for where the settings need them
(``mismatch``, ``kl``), and the groups of rows are split over minibatches, once for each pass.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from upturn.errors import TrainingError
from upturn.training.loss import Objective
from upturn.training.losses import AdaptiveCoefficient, k3, policy_objective
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
"""Rows that stay in one minibatch: all of one task, which begin alike."""


class Split(NamedTuple):
    """How the rows of an iteration become optimiser steps."""

    minibatches: int
    """Steps of one pass."""
    passes: int


class PolicyUpdate:
    """Weighted rows as optimiser steps of the policy. Single use: one run."""

    def __init__(
        self,
        settings: PolicyGradientSettings,
        seed: int,
        *,
        scorer: Scorer | None = None,
        reference: Scorer | None = None,
    ) -> None:
        """``scorer``, of the weights as they are, for mismatch settings; ``reference`` for a KL term.

        Raises TrainingError where one is missing, or given without effect.
        """
        kl = settings.objective.kl
        needs("mismatch", settings.mismatch, "scorer", scorer)
        needs("objective.kl", kl, "reference", reference)
        self.settings = settings
        self.seed = seed
        self._scorer = scorer
        self._reference = reference
        self._coefficient = (
            AdaptiveCoefficient(kl.coefficient, target=kl.target, horizon=kl.horizon)
            if kl is not None and kl.target is not None and kl.horizon is not None
            else None
        )

    def unit(self, index: int, groups: Groups, sampled: SampledCounts) -> Unit:
        """The steps of iteration ``index``, whose loss is an average over ``sampled``.

        Groups without rows are left out. Metric ``trained_rows``, and those of mismatch and KL.
        """
        active = [list(rows) for rows in groups if rows]
        metrics = {"trained_rows": float(sum(map(len, active)))}
        if active and self._scorer is not None and self.settings.mismatch is not None:
            metrics |= _recompute(active, self._scorer, self.settings.mismatch)
        objective = policy_objective(
            self.settings.objective, None if self._coefficient is None else self._coefficient.coefficient
        )
        if active and self._reference is not None:
            metrics |= self._refer(active, self._reference)
        total = denominator(sampled, self.settings.objective)
        split = Split(self.settings.minibatches, self.settings.passes)
        rng = np.random.default_rng([self.seed, index])
        return Unit(list(minibatches(active, objective, total, split, rng=rng)), metrics)

    def state(self) -> State:
        """What a checkpoint must hold beside weights and optimiser; empty without an adaptive coefficient."""
        return NO_STATE if self._coefficient is None else self._coefficient.state()

    def load_state(self, state: State) -> None:
        """Goes back to a state that ``state`` gave."""
        if self._coefficient is not None:
            self._coefficient.load_state({name: float(value) for name, value in state.items()})

    def _refer(self, groups: list[list[TrainingRow]], reference: Scorer) -> dict[str, float]:
        """Gives the rows their reference log-probs; an adaptive coefficient learns from them for the next time.

        Metric ``kl_coefficient``: the one this iteration trains with.
        """
        rows = [row for group in groups for row in group]
        scored = [replace(row, reference_logprobs=found) for row, found in zip(rows, reference(rows), strict=True)]
        _put_back(groups, scored)
        if self._coefficient is None:
            return {}
        used = self._coefficient.coefficient
        self._coefficient.update(_divergence(scored), len({row.trajectory_id for row in rows}))
        return {"kl_coefficient": used}


def minibatches(
    groups: Groups, objective: Objective, total: float, split: Split, *, rng: np.random.Generator
) -> list[Minibatch]:
    """The groups in an order that ``rng`` gives, another one in each pass, over at most as many minibatches.

    ``total``: the denominator of all of a pass, of which each minibatch has an equal share.
    """
    parts = min(split.minibatches, max(1, len(groups)))
    return [
        [Stream([row for each in part for row in groups[int(each)]], objective, total / split.minibatches)]
        for _ in range(split.passes)
        for part in np.array_split(rng.permutation(len(groups)), parts)
        if len(part)
    ]


def rollout_rows(rows: Sequence[TrainingRow], settings: ObjectiveSettings) -> Sequence[TrainingRow]:
    """The rows of one rollout with their scales; none where they have no gradient.

    A rollout is taken whole or not at all, since an objective may look at all of it. Without a KL term one whose
    weights are all 0 has no gradient.
    """
    if not rows or (settings.kl is None and not any(row.weights.any() for row in rows)):
        return ()
    shares = token_scales([len(row.positions) for row in rows], settings)
    if shares is None:
        return rows
    return [replace(row, scales=share) for row, share in zip(rows, shares, strict=True)]


def needs(setting: str, value: object, argument: str, given: object) -> None:
    """Raises TrainingError when a setting stands without the argument that it needs, or the other way round."""
    if (value is None) != (given is None):
        missing, present = (argument, setting) if given is None else (setting, argument)
        raise TrainingError(f"{present} without {missing} does nothing; give both or neither")


def _recompute(groups: list[list[TrainingRow]], scorer: Scorer, settings: MismatchSettings) -> dict[str, float]:
    """Gives the rows the trainer's own log-probs as old ones, and corrections; returns how far the sampler is."""
    rows = [row for group in groups for row in group]
    old = scorer(rows)
    tokens = written_tokens(rows)
    found = mismatch(WrittenLogprobs(np.concatenate(old), tokens.old_logprobs, tokens.sequences), settings)
    corrections = np.split(found.corrections, np.cumsum([len(each) for each in old])[:-1])
    _put_back(
        groups,
        [
            replace(row, old_logprobs=logprobs, corrections=correction)
            for row, logprobs, correction in zip(rows, old, corrections, strict=True)
        ],
    )
    return found.metrics


def _put_back(groups: list[list[TrainingRow]], rows: Sequence[TrainingRow]) -> None:
    """Replaces the groups' rows, in order."""
    left = iter(rows)
    for group in groups:
        group[:] = islice(left, len(group))


def _divergence(rows: Sequence[TrainingRow]) -> float:
    """Mean per token of k3 between the policy that sampled and the reference: KL(sampler ‖ reference)."""
    tokens = written_tokens(rows)
    differences = tokens.reference_logprobs.astype(np.float64) - tokens.old_logprobs
    return float(np.mean(k3(differences, np.exp(differences))))
