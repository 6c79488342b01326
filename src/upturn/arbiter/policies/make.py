"""The configured routing policy."""

from collections.abc import Callable, Mapping

from upturn.arbiter.policies.gaussian import GaussianThompson
from upturn.arbiter.policies.hierarchical import THRESHOLD, HierarchicalThompson
from upturn.arbiter.policies.linear import LINEAR_THRESHOLD, LinearThompson, LinUCB
from upturn.arbiter.policies.logistic import LOGISTIC_THRESHOLD, LogisticThompson
from upturn.arbiter.policies.neighbours import NearestNeighbours
from upturn.arbiter.policies.simple import UCB1, CheapestAboveBar, FixedWeights
from upturn.arbiter.policies.sliding import DEFAULT_WINDOW, SlidingThompson
from upturn.arbiter.policy import DiscountedThompson, EpsilonGreedy, RuleBasedRouting, StoredPolicy, Uniform
from upturn.arbiter.tally import DEFAULT_DISCOUNT, Tally
from upturn.config import PolicyName, RoutingConfig

POLICIES: Mapping[PolicyName, Callable[[RoutingConfig], StoredPolicy]] = {
    "thompson": lambda routing: HierarchicalThompson(floor=routing.floor, threshold=routing.threshold or THRESHOLD),
    "linear_thompson": lambda routing: LinearThompson(
        floor=routing.floor, threshold=routing.threshold or LINEAR_THRESHOLD
    ),
    "logistic_thompson": lambda routing: LogisticThompson(
        floor=routing.floor, threshold=routing.threshold or LOGISTIC_THRESHOLD
    ),
    "nearest_neighbours": lambda routing: NearestNeighbours(floor=routing.floor, neighbours=routing.neighbours),
    "gaussian_thompson": lambda routing: GaussianThompson(
        floor=routing.floor, discount=routing.discount or 1.0, window=routing.window
    ),
    "sliding_thompson": lambda routing: SlidingThompson(
        floor=routing.floor, window=routing.window or DEFAULT_WINDOW
    ),
    "discounted_thompson": lambda routing: DiscountedThompson(
        floor=routing.floor, tally=Tally(discount=routing.discount or DEFAULT_DISCOUNT)
    ),
    "lin_ucb": lambda routing: LinUCB(floor=routing.floor, alpha=routing.alpha),
    "ucb1": lambda routing: UCB1(floor=routing.floor),
    "epsilon_greedy": lambda routing: EpsilonGreedy(epsilon=routing.epsilon, tally=Tally(discount=1.0)),
    "fixed_weights": lambda routing: FixedWeights(routing.weights, floor=routing.floor),
    "cheapest": lambda routing: CheapestAboveBar(routing.bar, floor=routing.floor),
    "rule_based": lambda routing: RuleBasedRouting(routing.rules, routing.default_agent, floor=routing.floor),
    "uniform": lambda _routing: Uniform(),
}
"""How each policy of ``[routing] policy`` is made."""


def make_policy(routing: RoutingConfig) -> StoredPolicy:
    """Returns the configured policy, untrained."""
    return POLICIES[routing.policy](routing)
