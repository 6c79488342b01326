"""The settings of training on stored trajectories. No torch here."""

from collections.abc import Iterator

from upturn.config import Count, WholeNumber, settings
from upturn.training.policy_settings import MismatchSettings, PolicyGradientSettings

CORRECTION = MismatchSettings(weight="token", weight_cap=2.0)
"""Truncated importance weights by token: biased, but of low variance
(``upturn.training.optimisation.mismatch``)."""


@settings
class OfflineSettings(PolicyGradientSettings):
    """``upturn train offline``: policy optimisation on trajectories from the pool that have their sampler's
    log-probs."""

    groups: Count = 24
    """Tasks in one iteration, each with all its trajectories; every epoch has another order."""
    max_age: WholeNumber | None = None
    """Largest number of agent versions between the newest and the one that sampled a trajectory; older trajectories
    are not used. Omit for no limit."""
    mismatch: MismatchSettings | None = CORRECTION
    """Correction for the difference between the current weights and those that sampled, by importance weights or
    masks, computed in each iteration. ``false`` = the bound on the ratio alone, which goes no further from the
    sampler than the bound: for trajectories of nearly current weights."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield from super().problems()
        if self.dynamic_sampling is not None:
            yield (
                "dynamic_sampling samples further trajectories with the present weights, which stored trajectories "
                "do not have; leave it out"
            )
        if self.mismatch is not None and self.mismatch.weight == self.mismatch.mask == "none":
            yield (
                "mismatch only measures: with recomputed log-probs nothing would correct for the sampler. Set "
                "mismatch.weight or mismatch.mask, or leave mismatch out (false) and the ratio is taken to the "
                "sampler"
            )
