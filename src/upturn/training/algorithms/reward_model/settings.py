"""The settings of outcome reward models. No torch here."""

from collections.abc import Iterator

from upturn.config import Count, NotNegative, settings
from upturn.training.pair_settings import StoredPairSettings


@settings
class RewardModelSettings(StoredPairSettings):
    """``upturn train reward-model``: a model that scores trajectories, trained on pairs from the pool: corrections
    by people, trajectories of two versions for the same task, and the best with the worst trajectory of a task.
    One epoch is the rule, as in InstructGPT (arXiv 2203.02155, appendix C.2)."""

    evaluate_every: Count | None = 1
    """Epochs between two evaluations on the pairs that are held out; ``false`` = at the end only."""
    groups: bool = True
    """Whether the best trajectory of each task in the pool is paired with the worst, by their scores."""
    margin_coefficient: NotNegative = 0.0
    """The chosen score must exceed the rejected one by this times the difference of the verifier's scores (as in
    Llama 2, arXiv 2307.09288, eq. 2); corrections have no such difference."""
    centring: NotNegative = 0.0
    """Coefficient of (r_chosen + r_rejected)², which keeps scores around 0 (arXiv 2312.09244, eq. 2; TRL's
    ``center_rewards_coefficient``, where 0.01 is usual)."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield from super().problems()
        for name in ("min_margin", "margin_coefficient"):
            value = getattr(self, name)
            if value and not (self.old or self.groups):
                yield (
                    f"{name} = {value:g} has no effect on corrections, which have no margin; set groups = true, or "
                    "old and new, or leave it out"
                )
