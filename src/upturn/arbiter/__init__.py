"""Routing: the choice of an agent for each task, with its probability.

It has routing policies, the registry of agents in service, capability profiles, off-policy estimates from logged
decisions, and replay of policies on recorded outcomes. Start with ``router``, then ``policy``.
"""

from upturn.arbiter.checker import check_routing_policy
from upturn.arbiter.constraint import Constraints
from upturn.arbiter.consumption import Consumption, Expected
from upturn.arbiter.features import TEXT_FEATURES
from upturn.arbiter.learner import Learner
from upturn.arbiter.minimum_coverage import MinimumCoverage
from upturn.arbiter.objective import Objective, cost_usd
from upturn.arbiter.off_policy import (
    LoggedOutcome,
    OffPolicyEstimate,
    RewardModel,
    Target,
    all_estimates,
    always,
    direct_method,
    doubly_robust,
    inverse_propensity,
    policy_gain,
    running_means,
    self_normalised,
    switch_doubly_robust,
)
from upturn.arbiter.policies import (
    UCB1,
    CheapestAboveBar,
    FixedWeights,
    GaussianThompson,
    HierarchicalThompson,
    LinearThompson,
    LinUCB,
    LogisticThompson,
    NearestNeighbours,
    SlidingThompson,
    make_policy,
)
from upturn.arbiter.policy import (
    Candidate,
    ContextualPolicy,
    DiscountedThompson,
    EpsilonGreedy,
    RoutingOutcome,
    RoutingPolicy,
    RuleBasedRouting,
    StoredPolicy,
    Uniform,
    estimates_of,
    features_of,
)
from upturn.arbiter.policy_check import (
    PolicyCheck,
    PolicyGate,
    agent_of,
    check_new_policy,
    check_policy,
    learned_target,
)
from upturn.arbiter.posterior import Posterior, probability_best
from upturn.arbiter.recording import Recording, read_recording, stored_recording
from upturn.arbiter.registry import AgentRegistry, Load, Offer, Screening, ServedAgent
from upturn.arbiter.replay import (
    CheckedEstimates,
    Interval,
    Replay,
    ReplayOptions,
    check_estimates,
    learning_policies,
    replay,
    route_lines,
)
from upturn.arbiter.router import Router, RunKey, candidates_of
from upturn.arbiter.tally import Capability, Count, Tally, capabilities

__all__ = [
    "TEXT_FEATURES",
    "UCB1",
    "AgentRegistry",
    "Candidate",
    "Capability",
    "CheapestAboveBar",
    "CheckedEstimates",
    "Constraints",
    "Consumption",
    "ContextualPolicy",
    "Count",
    "DiscountedThompson",
    "EpsilonGreedy",
    "Expected",
    "FixedWeights",
    "GaussianThompson",
    "HierarchicalThompson",
    "Interval",
    "Learner",
    "LinUCB",
    "LinearThompson",
    "Load",
    "LoggedOutcome",
    "LogisticThompson",
    "MinimumCoverage",
    "NearestNeighbours",
    "Objective",
    "OffPolicyEstimate",
    "Offer",
    "PolicyCheck",
    "PolicyGate",
    "Posterior",
    "Recording",
    "Replay",
    "ReplayOptions",
    "RewardModel",
    "Router",
    "RoutingOutcome",
    "RoutingPolicy",
    "RuleBasedRouting",
    "RunKey",
    "Screening",
    "ServedAgent",
    "SlidingThompson",
    "StoredPolicy",
    "Tally",
    "Target",
    "Uniform",
    "agent_of",
    "all_estimates",
    "always",
    "candidates_of",
    "capabilities",
    "check_estimates",
    "check_new_policy",
    "check_policy",
    "check_routing_policy",
    "cost_usd",
    "direct_method",
    "doubly_robust",
    "estimates_of",
    "features_of",
    "inverse_propensity",
    "learned_target",
    "learning_policies",
    "make_policy",
    "policy_gain",
    "probability_best",
    "read_recording",
    "replay",
    "route_lines",
    "running_means",
    "self_normalised",
    "stored_recording",
    "switch_doubly_robust",
]
