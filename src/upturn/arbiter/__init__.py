"""Who does a task: routing policies, the agents in service, capabilities, off-policy estimates, replay."""

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
    "Count",
    "DiscountedThompson",
    "EpsilonGreedy",
    "Load",
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
    "probability_best",
]
