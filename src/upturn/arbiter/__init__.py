"""Routing: the choice of an agent for each task, with its probability.

It has routing policies, the registry of agents in service, capability profiles, off-policy estimates from logged
decisions, and replay of policies on recorded outcomes. Start with ``router``, then ``policy``.
"""

from upturn.arbiter.checker import check_routing_policy
from upturn.arbiter.off_policy import (
    LoggedOutcome,
    OffPolicyEstimate,
    Target,
    always,
    doubly_robust,
    inverse_propensity,
    self_normalised,
)
from upturn.arbiter.policies import (
    UCB1,
    CheapestAboveBar,
    FixedWeights,
    HierarchicalThompson,
    LinearThompson,
    LinUCB,
    StoredPolicy,
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
    Uniform,
    features_of,
)
from upturn.arbiter.posterior import Posterior, probability_best
from upturn.arbiter.price import Price, Usage, cost_usd
from upturn.arbiter.recording import Recording, read_recording
from upturn.arbiter.registry import AgentRegistry, Load, Offer, Screening, ServedAgent
from upturn.arbiter.replay import Interval, Replay, ReplayOptions, learning_policies, replay
from upturn.arbiter.router import Router, RunKey
from upturn.arbiter.tally import Capability, Count, Tally, capabilities

__all__ = [
    "UCB1",
    "AgentRegistry",
    "Candidate",
    "Capability",
    "CheapestAboveBar",
    "ContextualPolicy",
    "Count",
    "DiscountedThompson",
    "EpsilonGreedy",
    "FixedWeights",
    "HierarchicalThompson",
    "Interval",
    "LinUCB",
    "LinearThompson",
    "Load",
    "LoggedOutcome",
    "OffPolicyEstimate",
    "Offer",
    "Posterior",
    "Price",
    "Recording",
    "Replay",
    "ReplayOptions",
    "Router",
    "RoutingOutcome",
    "RoutingPolicy",
    "RuleBasedRouting",
    "RunKey",
    "Screening",
    "ServedAgent",
    "StoredPolicy",
    "Tally",
    "Target",
    "Uniform",
    "Usage",
    "always",
    "capabilities",
    "check_routing_policy",
    "cost_usd",
    "doubly_robust",
    "features_of",
    "inverse_propensity",
    "learning_policies",
    "make_policy",
    "probability_best",
    "read_recording",
    "replay",
    "self_normalised",
]
