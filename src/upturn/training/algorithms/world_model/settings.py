"""The settings of a world model. No torch here."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from upturn.config import Count, NotNegative, OptimiserSettings, Settings, settings
from upturn.training.advantages import AdvantageSettings
from upturn.training.algorithms.sft import SftSettings
from upturn.training.policy_settings import KlSettings, ObjectiveSettings, PolicyGradientSettings


@settings
class EasySettings(Settings):
    """Which transitions the model predicts before training: they are not trained on."""

    rate: Annotated[float, Field(gt=0, le=1)] = 0.875
    """Share of correct predictions from which a transition is dropped."""
    group_size: Count = 8
    """Predictions per transition."""


@settings
class WorldModelSettings(PolicyGradientSettings):
    """``upturn train world-model``: training to predict the environment's answers, on trajectories from the pool,
    before training on tasks (RWML, arXiv 2602.05842). As GRPO, with a KL term to the initial weights."""

    minibatches: Count = 1
    """Optimiser steps per iteration."""
    objective: ObjectiveSettings = ObjectiveSettings(
        clip_low=0.2, clip_high=0.2, aggregation="sequence_mean", kl=KlSettings(0.04)
    )
    """The loss."""
    advantage: AdvantageSettings = AdvantageSettings(scale="std")
    """The advantage estimator."""
    threshold: Annotated[float, Field(ge=0.5, le=1)] = 0.9
    """Similarity to the real answer from which a prediction is correct, with the reward 1; others have 0."""
    transitions_per_iteration: Count = 32
    """Transitions in one iteration."""
    group_size: Annotated[int, Field(ge=2)] = 8
    """Predictions per transition, which are compared with each other."""
    common_ratio: NotNegative | None = 1.0
    """Largest ratio of a tool's most common answer to its other answers; further ones are dropped, so a tool with
    one answer is dropped; ``false`` = no limit."""
    easy: EasySettings | None = EasySettings()
    """Which transitions are dropped because the model predicts them already; ``false`` = none."""
    warm_up: SftSettings | None = SftSettings(epochs=3, optimiser=OptimiserSettings(learning_rate=3e-4))
    """Preceding supervised training on the answers, for a model that cannot write any: a group without a correct
    prediction has no signal. Not part of the paper. With a learning rate of 1e-3 nano forgot how to act. ``false``
    = none."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield from super().problems()
        estimator = self.advantage.estimator
        if estimator != "trajectory":
            yield (
                f"advantage.estimator={estimator!r} compares turns, and a prediction is a single one; take "
                "'trajectory'"
            )
        if self.advantage.is_shaped:
            yield "advantage.is_shaped=True would do nothing: predictions have no potentials; leave it out"
