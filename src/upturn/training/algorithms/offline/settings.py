"""The settings of training on stored trajectories. No torch here."""

from collections.abc import Iterator

from upturn.config import Count, WholeNumber, settings
from upturn.training.policy_settings import MismatchSettings, PolicyGradientSettings

CORRECTION = MismatchSettings(weight="token", weight_cap=2.0)
"""Truncated importance weights by token: biased but tame (``upturn.training.optimisation.mismatch``)."""


@settings
class OfflineSettings(PolicyGradientSettings):
    """``upturn train offline``: policy optimisation on trajectories that the pool holds, with the log-probs of
    whoever sampled them."""

    groups: Count = 24
    """Tasks in one iteration, each with all its trajectories; they come round again, in another
    order in each epoch."""
    max_age: WholeNumber | None = None
    """Versions of the agent between the newest and the one that sampled a trajectory, beyond which it is left out;
    left out = any age."""
    mismatch: MismatchSettings | None = CORRECTION
    """How weights that have moved away from those that sampled are corrected for: by importance weights or masks,
    computed anew in each iteration. ``false`` = by the bound on the ratio alone, which goes no further from the
    sampler than the bound: for trajectories that are hardly older than the weights."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        yield from super().problems()
        if self.dynamic_sampling is not None:
            yield (
                "dynamic_sampling samples further trajectories with the present weights; stored ones are all there "
                "are, so leave it out"
            )
        if self.mismatch is not None and self.mismatch.weight == self.mismatch.mask == "none":
            yield (
                "mismatch only measures: with recomputed log-probs nothing would correct for whoever sampled. Set "
                "mismatch.weight or mismatch.mask, or leave mismatch out (false) and the ratio is taken to the "
                "sampler"
            )
