"""Routing: the choice of an agent for each task, with its probability.

It has routing policies, the registry of agents in service, capability profiles, off-policy estimates from logged
decisions, and replay of policies on recorded outcomes. Start with ``router``, then ``policy``.
"""

from upturn.arbiter.checker import check_routing_policy
from upturn.arbiter.learner import Learner, PrimaryMetric, StoredPolicy
from upturn.arbiter.minimum_coverage import MinimumCoverage
from upturn.arbiter.off_policy import (
    LoggedOutcome,
    OffPolicyEstimate,
    Target,
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
from upturn.arbiter.recording import Recording, read_recording
from upturn.arbiter.registry import AgentRegistry, Load, Offer, Screening, ServedAgent
from upturn.arbiter.replay import Interval, Replay, ReplayOptions, learning_policies, replay
from upturn.arbiter.router import Router, RunKey
from upturn.arbiter.tally import Capability, Count, Tally, capabilities

__all__ = [
    "AgentRegistry",
    "Candidate",
    "Capability",
    "Count",
    "DiscountedThompson",
    "EpsilonGreedy",
    "Interval",
    "Learner",
    "Load",
    "LoggedOutcome",
    "MinimumCoverage",
    "OffPolicyEstimate",
    "Offer",
    "Posterior",
    "PrimaryMetric",
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
    "always",
    "capabilities",
    "check_routing_policy",
    "doubly_robust",
    "inverse_propensity",
    "learning_policies",
    "probability_best",
    "read_recording",
    "replay",
    "self_normalised",
]
