"""The settings of direct preference optimisation. No torch here."""

from collections.abc import Iterator

from upturn.config import Count, NotNegative, settings
from upturn.training.pair_settings import PairObjectiveSettings, Reference
from upturn.training.run_settings import EpochSettings


@settings
class DpoSettings(EpochSettings):
    """``upturn train dpo``: training on pairs of trajectories from the pool: those of two versions for the same
    task, and corrections by people."""

    batch_pairs: Count = 32
    """Pairs in one optimiser step."""
    objective: PairObjectiveSettings = PairObjectiveSettings()
    """The loss."""
    reference: Reference = "initial"
    """The reference policy: the weights before training, or the sampler."""
    old: str = ""
    """Id of one of two agent versions whose trajectories of the same tasks are compared, such as ``nano@base``;
    empty = corrections only."""
    new: str = ""
    """Id of the other version."""
    min_margin: NotNegative = 0.0
    """Pairs from the pool whose scores differ by no more than this are dropped."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield from super().problems()
        if bool(self.old) != bool(self.new):
            present, missing = ("old", "new") if self.old else ("new", "old")
            yield f"{present} has no effect without {missing}; set both, or neither"
        if self.old and self.old == self.new:
            yield f"old and new are both {self.old!r}; name two versions that did the same tasks"
        if self.min_margin and not self.old:
            yield (
                f"min_margin = {self.min_margin:g} has no effect without old and new: corrections have no margin; "
                "set both, or leave it out"
            )
