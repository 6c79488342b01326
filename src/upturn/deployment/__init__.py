"""Releasing a candidate version: validation on held-out tasks, the canary on live traffic, and releases.

``release`` has the states of a release, ``validation`` the gate before its canary, ``canary`` the canary of one
release, ``rule`` the decision rule for many canaries at once, ``sequential`` and ``interval`` the statistics, and
``simulation`` measures the rule. ``loop`` serves the canary's tasks. Start with ``release``, then ``canary``.
"""

from upturn.config import CanarySettings, ValidationSettings
from upturn.deployment.canary import Canary
from upturn.deployment.episode import Awaited, Episode, Served, episodes_of, split_settled
from upturn.deployment.interval import (
    RESAMPLES,
    Interval,
    bootstrap_mean,
    clopper_pearson_interval,
    paired_bootstrap,
    wilson_interval,
)
from upturn.deployment.release import (
    History,
    Override,
    RegistryTraffic,
    Traffic,
    apply_traffic,
    candidate_share,
    history_of,
    hold,
    promote,
    release_id,
    release_status,
    resume,
    rollback,
    start,
)
from upturn.deployment.simulation import SCENARIOS, grid, simulation_results
from upturn.deployment.validation import Comparison, Pair, Validation, ValidationVerdict, pairs_of, validate

__all__ = [
    "RESAMPLES",
    "SCENARIOS",
    "Awaited",
    "Canary",
    "CanarySettings",
    "Comparison",
    "Episode",
    "History",
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
    "episodes_of",
    "grid",
    "history_of",
    "hold",
    "paired_bootstrap",
    "pairs_of",
    "promote",
    "release_id",
    "release_status",
    "resume",
    "rollback",
    "simulation_results",
    "split_settled",
    "start",
    "validate",
    "wilson_interval",
]
