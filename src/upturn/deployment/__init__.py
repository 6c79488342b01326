"""From candidate to service: validation on held-out tasks, the canary, releases, and the statistics under them."""

from upturn.config import CanarySettings, ValidationSettings
from upturn.deployment.canary import Block, Canary, Served
from upturn.deployment.interval import (
    RESAMPLES,
    Interval,
    bootstrap_mean,
    clopper_pearson_interval,
    paired_bootstrap,
    wilson_interval,
)
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
from upturn.deployment.simulation import BLOCK_TASKS, SCENARIOS, bench
from upturn.deployment.validation import Comparison, Pair, Validation, ValidationVerdict, pairs_of, validate

__all__ = [
    "BLOCK_TASKS",
    "RESAMPLES",
    "SCENARIOS",
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
    "bench",
    "bootstrap_mean",
    "candidate_share",
    "clopper_pearson_interval",
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
