"""From candidate to service: validation on held-out tasks, the canary, releases, and the statistics under them."""

from upturn.deployment.canary import Block, Canary, Served
from upturn.deployment.interval import Interval, bootstrap_mean, paired_bootstrap, wilson_interval
from upturn.deployment.release import (
    Override,
    RegistryTraffic,
    Traffic,
    candidate_share,
    direct,
    hold,
    promote,
    release_id,
    resume,
    rollback,
    start,
    status_word,
)
from upturn.deployment.rule import CanarySettings
from upturn.deployment.validation import (
    Comparison,
    Pair,
    Validation,
    ValidationSettings,
    ValidationVerdict,
    pairs_of,
    validate,
)

__all__ = [
    "Block",
    "Canary",
    "CanarySettings",
    "Comparison",
    "Interval",
    "Override",
    "Pair",
    "RegistryTraffic",
    "Served",
    "Traffic",
    "Validation",
    "ValidationSettings",
    "ValidationVerdict",
    "bootstrap_mean",
    "candidate_share",
    "direct",
    "hold",
    "paired_bootstrap",
    "pairs_of",
    "promote",
    "release_id",
    "resume",
    "rollback",
    "start",
    "status_word",
    "validate",
    "wilson_interval",
]
