"""Releasing a candidate version: validation on held-out tasks, the canary on live traffic, and releases.

``release`` has the states of a release, ``validation`` the gate before its canary, ``canary`` the canary of one
release, ``rule`` the decision rule for many canaries at once, ``sequential`` and ``paired_test`` the statistics,
and ``simulation`` measures the rule. ``loop`` serves the canary's tasks. Start with ``release``, then ``canary``.
"""

from upturn.config import CanarySettings, ValidationSettings
from upturn.deployment.canary import Canary
from upturn.deployment.episode import Awaited, Episode, Served, episodes_of, split_settled
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
    "SCENARIOS",
    "Awaited",
    "Canary",
    "CanarySettings",
    "Comparison",
    "Episode",
    "History",
    "Override",
    "Pair",
    "RegistryTraffic",
    "Served",
    "Traffic",
    "Validation",
    "ValidationSettings",
    "ValidationVerdict",
    "apply_traffic",
    "candidate_share",
    "episodes_of",
    "grid",
    "history_of",
    "hold",
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
]
