"""Releasing a candidate version: validation on held-out tasks, the canary on live traffic, and releases.

``release`` has the states of a release, ``validation`` the gate before its canary, ``canary`` the canary of one
release, ``rule`` the decision rule for arrays of canaries, ``sequential`` and ``interval`` the statistics, and
``simulation`` measures the rule. ``loop`` serves the canary's tasks. Start with ``release``, then ``canary``.
"""

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
    apply_traffic,
    candidate_share,
    hold,
    promote,
    release_id,
    release_status,
    resume,
    rollback,
    start,
)
from upturn.deployment.simulation import BLOCK_TASKS, SCENARIOS, simulation_results
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
    "apply_traffic",
    "bootstrap_mean",
    "candidate_share",
    "clopper_pearson_interval",
    "hold",
    "paired_bootstrap",
    "pairs_of",
    "promote",
    "release_id",
    "release_status",
    "resume",
    "rollback",
    "simulation_results",
    "start",
    "validate",
    "wilson_interval",
]
