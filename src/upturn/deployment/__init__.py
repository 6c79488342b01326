"""Releasing a candidate version: validation on held-out tasks, the canary on live traffic, and releases.

``release`` has the states of a release, ``validation`` the gate before its canary, ``canary`` the canary of one
release, ``rule`` the decision rule for many canaries at once, ``sequential`` and ``paired_test`` the statistics,
``simulation`` measures the rule, ``best_agent`` stops an experiment between agents, and ``plan`` designs a release
with it. ``loop`` serves the canary's tasks. Start with ``release``, then ``canary``.
"""

from upturn.config import CanarySettings, ValidationSettings
from upturn.deployment.agents import (
    CapabilityProfiles,
    CapabilityUpdate,
    VersionChange,
    add_version,
    capability_profiles,
    deploy_improved_agent,
    update_agent_capabilities,
    validate_agent_performance,
)
from upturn.deployment.best_agent import BestAgent, BestAgentRule, BestAgentSearch, identify_best
from upturn.deployment.best_agent_simulation import EXPERIMENTS, best_agent_results
from upturn.deployment.canary import Canary, episode_digest
from upturn.deployment.episode import Awaited, Episode, Served, episodes_of, split_settled
from upturn.deployment.paired_test import holm
from upturn.deployment.plan import (
    FALSE_FAILURES,
    PLAN_STEPS,
    HeldoutDesign,
    ReleaseDesign,
    plan_release,
    tasks_needed,
    validation_shares,
)
from upturn.deployment.release import (
    ACTS,
    OPEN_STATES,
    History,
    Override,
    RegistryTraffic,
    Traffic,
    apply_traffic,
    candidate_share,
    check_free,
    find_release,
    history_of,
    hold,
    incumbent_of,
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
    "ACTS",
    "EXPERIMENTS",
    "FALSE_FAILURES",
    "OPEN_STATES",
    "PLAN_STEPS",
    "SCENARIOS",
    "Awaited",
    "BestAgent",
    "BestAgentRule",
    "BestAgentSearch",
    "Canary",
    "CanarySettings",
    "CapabilityProfiles",
    "CapabilityUpdate",
    "Comparison",
    "Episode",
    "HeldoutDesign",
    "History",
    "Override",
    "Pair",
    "RegistryTraffic",
    "ReleaseDesign",
    "Served",
    "Traffic",
    "Validation",
    "ValidationSettings",
    "ValidationVerdict",
    "VersionChange",
    "add_version",
    "apply_traffic",
    "best_agent_results",
    "candidate_share",
    "capability_profiles",
    "check_free",
    "deploy_improved_agent",
    "episode_digest",
    "episodes_of",
    "find_release",
    "grid",
    "history_of",
    "hold",
    "holm",
    "identify_best",
    "incumbent_of",
    "pairs_of",
    "plan_release",
    "promote",
    "release_id",
    "release_status",
    "resume",
    "rollback",
    "simulation_results",
    "split_settled",
    "start",
    "tasks_needed",
    "update_agent_capabilities",
    "validate",
    "validate_agent_performance",
    "validation_shares",
]
