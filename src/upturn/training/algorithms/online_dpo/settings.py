"""The settings of direct preference optimisation on fresh pairs. No torch here."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from upturn.config import Count, report_unused, settings
from upturn.training.algorithms.ppo import CriticSettings
from upturn.training.pair_settings import PairObjectiveSettings, PairSettings, Reference
from upturn.training.run_settings import OnlineSettings


@settings
class OnlineDpoSettings(OnlineSettings):
    """``upturn train online-dpo``: direct preference optimisation on pairs of the model's own trajectories, sampled
    again in every iteration."""

    group_size: Annotated[int, Field(ge=2)] = 8
    """Trajectories per task, which are paired."""
    pairs: PairSettings = PairSettings()
    """How pairs are built."""
    epochs: Count = 1
    """Passes over an iteration's pairs."""
    batch_pairs: Count = 32
    """Pairs in one optimiser step."""
    objective: PairObjectiveSettings = PairObjectiveSettings()
    """The loss."""
    reference: Reference = "recorded"
    """The reference policy: ``recorded``: the weights at the start of an iteration, which sampled its trajectories;
    ``initial``: those before training."""
    critic: CriticSettings | None = None
    """The training of a critic, for ``pairs.monte_carlo_share`` below 1; in its ``alone_iterations`` that share is
    1. Omit for the default critic where that share is below 1."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield from super().problems()
        share, alone = self.pairs.monte_carlo_share, 0 if self.critic is None else self.critic.alone_iterations
        yield report_unused(
            self.critic is not None and share == 1,
            "critic",
            "with pairs.monte_carlo_share=1, where nothing reads it; set a smaller share, or leave the critic out",
        )
        if self.iterations <= alone:
            yield (
                f"critic.alone_iterations={alone!r} leaves no iteration of {self.iterations!r} that uses the "
                "critic; set fewer, or more iterations"
            )
