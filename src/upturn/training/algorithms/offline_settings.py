"""What training on stored attempts can be told. No torch here."""

from dataclasses import dataclass, field

from upturn.training.policy_settings import MismatchSettings
from upturn.training.settings import GrpoSettings
from upturn.training.validators import is_not_negative, is_positive, refuse, unless, unless_missing

CORRECTION = MismatchSettings(weight="token", weight_cap=2.0)
"""Truncated importance weights by token: biased but tame (``upturn.training.optimisation.mismatch``)."""


@dataclass(frozen=True, slots=True)
class OfflineSettings:
    """Policy optimisation on stored attempts, with the log-probs of whoever sampled them."""

    groups: int = 24
    """Tasks in one iteration; the stored ones come round again, each epoch in another order."""
    max_age: int | None = None
    """Versions between the newest and the one that sampled an attempt, beyond which it is left out; None = none is
    too old."""
    policy: GrpoSettings = field(default_factory=lambda: GrpoSettings(mismatch=CORRECTION))
    """The algorithm. How it corrects for weights that have moved away from those that sampled: with ``mismatch`` by
    importance weights or masks, computed anew in each iteration; without it by the bound on the ratio alone, which
    goes no further from the sampler than the bound: for attempts that are hardly older than the weights."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        mismatch = self.policy.mismatch
        refuse(
            unless(self.groups, "groups", "at least 1", is_positive),
            unless_missing(self.max_age, "max_age", "0 or more, or None (any age)", is_not_negative),
            "policy.dynamic_sampling samples further attempts with the present weights; stored ones are all there "
            "are, so leave it out"
            if self.policy.dynamic_sampling is not None
            else None,
            "policy.mismatch only measures: with recomputed log-probs nothing would correct for whoever sampled. "
            "Set mismatch.weight or mismatch.mask, or leave mismatch out and the ratio is taken to the sampler"
            if mismatch is not None and mismatch.weight == mismatch.mask == "none"
            else None,
        )
