"""The settings of process reward models. No torch here."""

from collections.abc import Iterator

from upturn.config import Count, report_unused, settings
from upturn.training.reward_models import Aggregation, LabelSource
from upturn.training.run_settings import EpochSettings


@settings
class ProcessRewardSettings(EpochSettings):
    """``upturn train process-reward``: a model of the probability of success after each turn, trained on
    trajectories in the pool."""

    evaluate_every: Count | None = 1
    """Epochs between two evaluations on the tasks that are held out; ``false`` = at the end only."""
    batch_trajectories: Count = 32
    """Trajectories in one optimiser step."""
    targets: LabelSource = "outcome"
    """The target of a turn: the trajectory's success; the share of continuations from the state after it that
    succeed, which the agent samples before training; or the progress that the environment reports for it."""
    continuations: Count | None = None
    """Continuations from each state, for ``targets = "continuations"``. Unset = 8, as in Math-Shepherd."""
    aggregation: Aggregation = "min"
    """How the turns' probabilities become the trajectory's score: ``min`` (arXiv 2312.08935), ``product`` (arXiv
    2305.20050), ``last`` (arXiv 2408.03314) or ``mean``."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield from super().problems()
        yield report_unused(
            self.continuations is not None and self.targets != "continuations",
            f"continuations={self.continuations!r}",
            f"with targets={self.targets!r}",
        )
