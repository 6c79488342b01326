"""Who does a task: routing policies, the agents in service, capabilities, off-policy estimates, replay."""

from upturn.arbiter.capability import Capability, capabilities
from upturn.arbiter.checker import check_routing_policy
from upturn.arbiter.evaluation import (
    LoggedOutcome,
    OffPolicyEstimate,
    always,
    doubly_robust,
    inverse_propensity,
    self_normalised,
)
from upturn.arbiter.policy import (
    Candidate,
    DiscountedThompson,
    EpsilonGreedy,
    RoutingOutcome,
    RoutingPolicy,
    RuleBasedRouting,
    Uniform,
)
from upturn.arbiter.posterior import Posterior, probability_best
from upturn.arbiter.registry import AgentRegistry, Load, Offer, Screening, ServedAgent
from upturn.arbiter.router import Router, RunKey
from upturn.arbiter.tally import Count, Tally

__all__ = [
    "AgentRegistry",
    "Candidate",
    "Capability",
    "Count",
    "DiscountedThompson",
    "EpsilonGreedy",
    "Load",
    "LoggedOutcome",
    "OffPolicyEstimate",
    "Offer",
    "Posterior",
    "Router",
    "RoutingOutcome",
    "RoutingPolicy",
    "RuleBasedRouting",
    "RunKey",
    "Screening",
    "ServedAgent",
    "Tally",
    "Uniform",
    "always",
    "capabilities",
    "check_routing_policy",
    "doubly_robust",
    "inverse_propensity",
    "probability_best",
    "self_normalised",
]
