"""Credit by a critic: what the steps of an attempt earned beyond what was expected of them. No torch here."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from upturn.training.algorithms.ppo.credit_units import RolloutSteps
from upturn.training.algorithms.ppo.gae import Floats, discounted_returns, generalised_advantages, whitened
from upturn.training.algorithms.ppo.settings import CreditSettings
from upturn.training.row import TrainingRow


class Credited(NamedTuple):
    """An attempt's steps and what they taught; all but ``steps`` are ``(S,)``."""

    steps: RolloutSteps
    values: Floats
    """The critic's, of the states that the steps began in, before any of the iteration's optimiser steps."""
    advantages: Floats
    """As estimated; the scale is the iteration's (``weighted_rows``)."""
    returns: Floats
    """What values are fitted to."""

    def valued_rows(self) -> list[TrainingRow]:
        """The attempt's rows for the critic."""
        return self.steps.valued_rows(self.values, self.returns)


def credited(steps: RolloutSteps, values: Floats, settings: CreditSettings) -> Credited:
    """Generalised advantages and λ-returns, each with its λ.

    After the last step nothing is earned any more, also where a limit ended the attempt: limits belong to the task.
    """
    trace, value_trace = settings.traces
    found = generalised_advantages(steps.rewards, values, gamma=settings.gamma, trace=trace)
    fitted = found
    if value_trace != trace:
        fitted = generalised_advantages(steps.rewards, values, gamma=settings.gamma, trace=value_trace)
    return Credited(steps, values, found.advantages, fitted.returns)


def weighted_rows(attempts: Sequence[Credited], settings: CreditSettings) -> list[list[TrainingRow]]:
    """The rows of each attempt, each written token with the advantage of its step.

    Whitened where the settings ask for it: over all tokens of the iteration.
    """
    weights = [each.advantages[each.steps.steps] for each in attempts]
    if settings.is_whitened and attempts:
        weights = np.split(whitened(np.concatenate(weights)), np.cumsum(list(map(len, weights)))[:-1])
    return [each.steps.weighted_rows(own) for each, own in zip(attempts, weights, strict=True)]


def credit_metrics(attempts: Sequence[Credited], gamma: float) -> dict[str, float]:
    """``mean_value``, ``advantage_std`` before whitening, and ``explained_variance``: 1 − Var(G − V)/Var(G).

    G is what was really earned from each step on, not the λ-return, which leans on V itself; NaN where G is
    everywhere the same. At least one attempt.
    """
    values = np.concatenate([each.values for each in attempts])
    earned = np.concatenate([discounted_returns(each.steps.rewards, gamma=gamma) for each in attempts])
    spread = float(np.var(earned))
    return {
        "mean_value": float(np.mean(values)),
        "explained_variance": 1 - float(np.var(earned - values)) / spread if spread > 0 else math.nan,
        "advantage_std": float(np.std(np.concatenate([each.advantages for each in attempts]))),
    }
