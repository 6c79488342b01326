"""The use and training of a critic: it values the steps of a round, then is trained on their returns.

Its values serve a policy gradient as baselines (``ppo``), and preference rounds to compare actions
(``action_value``)."""

import time
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from upturn.training.algorithms.policy_update import minibatches
from upturn.training.algorithms.ppo.credit import StepCredit, credit_metrics, estimate_credit
from upturn.training.algorithms.ppo.credit_units import RolloutSteps
from upturn.training.algorithms.ppo.settings import CreditSettings, CriticSettings
from upturn.training.losses import SquaredError
from upturn.training.optimisation import Critic
from upturn.training.runs import summary
from upturn.training.stream import State

_ORDER_STREAM = 1
"""Separates the random order of the critic's minibatches from the policy's."""


class RoundCredit(NamedTuple):
    """The credit of a round."""

    groups: list[list[StepCredit]]
    """By the critic before it was trained on them."""
    metrics: dict[str, float]


class CriticUpdate:
    """A critic, its training and the advantages from its values. Single use: one run."""

    def __init__(self, critic: Critic, settings: CriticSettings, credit: CreditSettings, seed: int) -> None:
        self.settings = settings
        self.credit = credit
        self.seed = seed
        self._critic = critic

    def credit_and_train(self, index: int, groups: Sequence[Sequence[RolloutSteps]]) -> RoundCredit:
        """Returns the credit of round ``index``, by group, then trains the critic on it.

        The values come first, so that none has been fitted to the outcome of its own trajectory.
        """
        started = time.perf_counter()
        step_credits = self._estimate(groups)
        metrics = self._train(index, step_credits) if any(step_credits) else {}
        return RoundCredit(step_credits, {**metrics, "critic_seconds": time.perf_counter() - started})

    def state(self) -> State:
        """Returns the critic's state."""
        return self._critic.state()

    def load_state(self, state: State) -> None:
        """Restores a state from ``state``."""
        self._critic.load_state(state)

    def _estimate(self, groups: Sequence[Sequence[RolloutSteps]]) -> list[list[StepCredit]]:
        rows = [steps.valued_rows() for group in groups for steps in group]
        values = iter(self._critic.values([row for step_rows in rows for row in step_rows]))
        counts = iter(map(len, rows))
        return [
            [
                estimate_credit(steps, steps.values_of(list(islice(values, next(counts)))), self.credit)
                for steps in group
            ]
            for group in groups
        ]

    def _train(self, index: int, groups: Sequence[Sequence[StepCredit]]) -> dict[str, float]:
        """Takes the critic's optimiser steps; returns their metrics and those of the values before them."""
        settings = self.settings
        step_credits = [credit for group in groups for credit in group]
        steps = minibatches(
            [[row for credit in group for row in credit.valued_rows()] for group in groups if group],
            SquaredError(settings.value_clip),
            float(sum(len(credit.values) for credit in step_credits)),
            count=settings.minibatches,
            passes=settings.passes,
            rng=np.random.default_rng([self.seed, index, _ORDER_STREAM]),
        )
        trained = summary(self._critic.train(steps))
        metrics = {f"critic_{name}": trained[name] for name in ("optimiser_steps", "grad_norm", "learning_rate")}
        metrics |= {name: value for name, value in trained.items() if name.startswith("value_")}
        known = {name: value for name, value in metrics.items() if value is not None}
        return {**credit_metrics(step_credits, self.credit.gamma), **known}
