"""The settings of direct preference optimisation on fresh pairs. No torch here."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from upturn.config import Count, settings, useless
from upturn.training.algorithms.ppo import CriticSettings
from upturn.training.pair_settings import PairObjectiveSettings, PairSettings, Reference
from upturn.training.run_settings import OnlineSettings


@settings
class OnlineDpoSettings(OnlineSettings):
    """``upturn train online-dpo``: direct preference optimisation on pairs of the model's own trajectories, sampled
    anew in every iteration."""

    group_size: Annotated[int, Field(ge=2)] = 8
    """Trajectories of each task, which are paired."""
    pairs: PairSettings = PairSettings()
    """Which pairs."""
    epochs: Count = 1
    """How often an iteration's pairs are used."""
    batch_pairs: Count = 32
    """Pairs in one optimiser step."""
    objective: PairObjectiveSettings = PairObjectiveSettings()
    """The loss."""
    reference: Reference = "recorded"
    """``recorded``: the weights that an iteration began with, since they sampled its trajectories; ``initial``:
    those before training."""
    critic: CriticSettings | None = None
    """How a critic of the run's own learns, for ``pairs.monte_carlo_share`` below 1; in its ``alone_iterations``
    that share is 1. Left out = the usual one where that share is below 1."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        yield from super().problems()
        share, alone = self.pairs.monte_carlo_share, 0 if self.critic is None else self.critic.alone_iterations
        yield useless(
            self.critic is not None and share == 1,
            "critic",
            "with pairs.monte_carlo_share=1, where nothing reads it; set a smaller share, or leave the critic out",
        )
        if self.iterations <= alone:
            yield (
                f"critic.alone_iterations={alone!r} leaves no iteration of {self.iterations!r} that uses the "
                f"critic; "
                "set fewer, or more iterations"
            )
