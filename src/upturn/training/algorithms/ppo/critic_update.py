"""A critic at work: it says what the steps of a round's attempts were worth, then learns from what they earned.

Whatever is learned from its values is somebody else's: a policy gradient weighs tokens by them (``ppo``), rounds of
preference judge actions by them (``action_value``).
"""

import time
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from upturn.training.algorithms.policy_update import Split, minibatches
from upturn.training.algorithms.ppo.credit import Credited, credit_metrics, credited
from upturn.training.algorithms.ppo.credit_units import RolloutSteps
from upturn.training.algorithms.ppo.settings import CreditSettings, CriticSettings
from upturn.training.losses import SquaredError
from upturn.training.optimisation import Critic
from upturn.training.runs import summary
from upturn.training.stream import State

_ORDER = 1
"""Makes the order of the critic's minibatches another one than the policy's."""


class Appraised(NamedTuple):
    """What a round came to."""

    groups: list[list[Credited]]
    """By the critic as it was before it learned from them."""
    metrics: dict[str, float]


class Appraiser:
    """A critic, how it learns and how its values become credit. Single use: one run."""

    def __init__(self, critic: Critic, settings: CriticSettings, credit: CreditSettings, seed: int) -> None:
        self.settings = settings
        self.credit = credit
        self.seed = seed
        self._critic = critic

    def appraise(self, index: int, groups: Sequence[Sequence[RolloutSteps]]) -> Appraised:
        """Round ``index``, by group; the critic has learned from it when this returns.

        Values are fitted to what they are judged by only afterwards, so that none has seen its own outcome.
        """
        started = time.perf_counter()
        found = self._credited(groups)
        metrics = self._learn(index, found) if any(found) else {}
        return Appraised(found, {**metrics, "critic_seconds": time.perf_counter() - started})

    def state(self) -> State:
        """The critic's."""
        return self._critic.state()

    def load_state(self, state: State) -> None:
        """Goes back to what ``state`` gave."""
        self._critic.load_state(state)

    def _credited(self, groups: Sequence[Sequence[RolloutSteps]]) -> list[list[Credited]]:
        rows = [each.valued_rows() for group in groups for each in group]
        read = iter(self._critic.values([row for own in rows for row in own]))
        counts = iter(map(len, rows))
        return [
            [credited(each, each.values_of(list(islice(read, next(counts)))), self.credit) for each in group]
            for group in groups
        ]

    def _learn(self, index: int, groups: Sequence[Sequence[Credited]]) -> dict[str, float]:
        """The critic's optimiser steps; returns what they and the values before them were like."""
        own = self.settings
        attempts = [each for group in groups for each in group]
        steps = minibatches(
            [[row for each in group for row in each.valued_rows()] for group in groups if group],
            SquaredError(own.value_clip),
            float(sum(len(each.values) for each in attempts)),
            Split(own.minibatches, own.passes),
            rng=np.random.default_rng([self.seed, index, _ORDER]),
        )
        seen = summary(self._critic.train(steps))
        told = {f"critic_{name}": seen[name] for name in ("optimiser_steps", "grad_norm", "learning_rate")}
        told |= {name: value for name, value in seen.items() if name.startswith("value_")}
        metrics = credit_metrics(attempts, self.credit.gamma)
        return {**metrics, **{name: value for name, value in told.items() if value is not None}}
