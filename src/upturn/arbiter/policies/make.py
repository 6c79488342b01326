"""The configured routing policy."""

from typing import assert_never

from upturn.arbiter.policies.hierarchical import THRESHOLD, HierarchicalThompson
from upturn.arbiter.policies.linear import LINEAR_THRESHOLD, LinearThompson, LinUCB
from upturn.arbiter.policies.simple import UCB1, CheapestAboveBar, FixedWeights
from upturn.arbiter.policy import DiscountedThompson, EpsilonGreedy, RuleBasedRouting, StoredPolicy, Uniform
from upturn.arbiter.tally import Tally
from upturn.config import RoutingConfig


def make_policy(routing: RoutingConfig) -> StoredPolicy:
    """Returns the configured policy, untrained."""
    match routing.policy:
        case "thompson":
            return HierarchicalThompson(floor=routing.floor, threshold=routing.threshold or THRESHOLD)
        case "linear_thompson":
            return LinearThompson(floor=routing.floor, threshold=routing.threshold or LINEAR_THRESHOLD)
        case "discounted_thompson":
            return DiscountedThompson(floor=routing.floor, tally=Tally(discount=routing.discount))
        case "lin_ucb":
            return LinUCB(floor=routing.floor, alpha=routing.alpha)
        case "ucb1":
            return UCB1(floor=routing.floor)
        case "epsilon_greedy":
            return EpsilonGreedy(epsilon=routing.epsilon, tally=Tally(discount=1.0))
        case "fixed_weights":
            return FixedWeights(routing.weights, floor=routing.floor)
        case "cheapest":
            return CheapestAboveBar(routing.bar, floor=routing.floor)
        case "rule_based":
            return RuleBasedRouting(routing.rules, routing.default_agent, floor=routing.floor)
        case "uniform":
            return Uniform()
    assert_never(routing.policy)
