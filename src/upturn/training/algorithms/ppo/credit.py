"""Advantages by a critic: the rewards of a trajectory's steps relative to the critic's values. No torch here."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from upturn.training.algorithms.ppo.credit_units import RolloutSteps
from upturn.training.algorithms.ppo.gae import Floats, discounted_returns, generalised_advantages, whitened
from upturn.training.algorithms.ppo.settings import CreditSettings
from upturn.training.row import TrainingRow


class StepCredit(NamedTuple):
    """A trajectory's steps with values and advantages; all but ``steps`` are ``(S,)``."""

    steps: RolloutSteps
    values: Floats
    """The critic's values of the states before the steps, before the iteration's optimiser steps."""
    advantages: Floats
    """Not whitened (see ``weighted_rows``)."""
    returns: Floats
    """Targets of the values."""

    def valued_rows(self) -> list[TrainingRow]:
        """Returns the trajectory's rows for the critic."""
        return self.steps.valued_rows(self.values, self.returns)


def estimate_credit(steps: RolloutSteps, values: Floats, settings: CreditSettings) -> StepCredit:
    """Returns generalised advantages and λ-returns, each with its λ.

    The value after the last step is 0, also where a limit ended the trajectory: limits belong to the task.
    """
    trace, value_trace = settings.traces
    estimates = generalised_advantages(steps.rewards, values, gamma=settings.gamma, trace=trace)
    returns = estimates.returns
    if value_trace != trace:
        returns = generalised_advantages(steps.rewards, values, gamma=settings.gamma, trace=value_trace).returns
    return StepCredit(steps, values, estimates.advantages, returns)


def weighted_rows(step_credits: Sequence[StepCredit], settings: CreditSettings) -> list[list[TrainingRow]]:
    """Returns the rows of each trajectory, each written token with the advantage of its step.

    With ``is_whitened`` the advantages are whitened over all tokens of the iteration.
    """
    weights = [credit.advantages[credit.steps.steps] for credit in step_credits]
    if settings.is_whitened and step_credits:
        weights = np.split(whitened(np.concatenate(weights)), np.cumsum(list(map(len, weights)))[:-1])
    return [credit.steps.weighted_rows(weight) for credit, weight in zip(step_credits, weights, strict=True)]


def credit_metrics(step_credits: Sequence[StepCredit], gamma: float) -> dict[str, float]:
    """Returns ``mean_value``, ``advantage_std`` before whitening, and ``explained_variance``: 1 − Var(G −
    V)/Var(G).

    G is the discounted return from each step, not the λ-return, which depends on V; NaN where G is constant. At
    least one trajectory."""
    values = np.concatenate([credit.values for credit in step_credits])
    returns = np.concatenate([discounted_returns(credit.steps.rewards, gamma=gamma) for credit in step_credits])
    variance = float(np.var(returns))
    return {
        "mean_value": float(np.mean(values)),
        "explained_variance": 1 - float(np.var(returns - values)) / variance if variance > 0 else math.nan,
        "advantage_std": float(np.std(np.concatenate([credit.advantages for credit in step_credits]))),
    }
