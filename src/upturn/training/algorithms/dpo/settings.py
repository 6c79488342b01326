"""The settings of direct preference optimisation. No torch here."""

from collections.abc import Iterator

from upturn.config import settings
from upturn.training.pair_settings import PairObjectiveSettings, Reference, StoredPairSettings


@settings
class DpoSettings(StoredPairSettings):
    """``upturn train dpo``: training on pairs of trajectories from the pool: those of two versions for the same
    task, and corrections by people."""

    objective: PairObjectiveSettings = PairObjectiveSettings()
    """The loss."""
    reference: Reference = "initial"
    """The reference policy: the weights before training, or the sampler."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield from super().problems()
        if self.min_margin and not self.old:
            yield (
                f"min_margin = {self.min_margin:g} has no effect without old and new: corrections have no margin; "
                "set both, or leave it out"
            )
