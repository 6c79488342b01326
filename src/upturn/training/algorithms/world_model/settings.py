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
    """Which transitions the model knows before it learns to predict: they are left out."""

    rate: Annotated[float, Field(gt=0, le=1)] = 0.875
    """Those that it predicts right at least this often."""
    group_size: Count = 8
    """Predictions that the rate is of."""


@settings
class WorldModelSettings(PolicyGradientSettings):
    """``upturn train world-model``: learning to predict what the environment answers, from trajectories that the
    pool holds, before any task is learned (RWML, arXiv 2602.05842). As GRPO, with a KL term to the weights that it
    starts from."""

    minibatches: Count = 1
    """Optimiser steps of an iteration."""
    objective: ObjectiveSettings = ObjectiveSettings(
        clip_low=0.2, clip_high=0.2, aggregation="sequence_mean", kl=KlSettings(0.04)
    )
    """The loss."""
    advantage: AdvantageSettings = AdvantageSettings(scale="std")
    """What a prediction is credited with."""
    threshold: Annotated[float, Field(ge=0.5, le=1)] = 0.9
    """A prediction that is at least this alike to the real answer is right and earns 1, any other 0."""
    transitions_per_iteration: Count = 32
    """Answers that are predicted in one iteration."""
    group_size: Annotated[int, Field(ge=2)] = 8
    """Predictions of each, which are compared with each other."""
    common_ratio: NotNegative | None = 1.0
    """Answers that are a tool's most common one are kept at most this many times as often as its others, so a tool
    with one answer goes; ``false`` = all stay."""
    easy: EasySettings | None = EasySettings()
    """Which transitions are left out because the model knows them; ``false`` = none."""
    warm_up: SftSettings | None = SftSettings(epochs=3, optimiser=OptimiserSettings(learning_rate=3e-4))
    """Supervised training on the answers before, for a model that cannot write any: where no prediction of a group
    is right, it teaches nothing. Not part of the paper. With a learning rate of 1e-3 nano was seen to forget how to
    act. ``false`` = none."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        yield from super().problems()
        estimator = self.advantage.estimator
        if estimator != "trajectory":
            yield (
                f"advantage.estimator={estimator!r} compares turns, and a prediction is a single one; take "
                "'trajectory'"
            )
        if self.advantage.is_shaped:
            yield "advantage.is_shaped=True would do nothing: predictions have no potentials; leave it out"
