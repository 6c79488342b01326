"""Policies that learn with shared code: Thompson sampling, LinUCB, UCB1, fixed weights, the cheapest above a bar.

The contract and the policies on plain discounted counts are in ``arbiter.policy``. Start with ``base``, then
``hierarchical``, the default.
"""

from upturn.arbiter.policies.base import DEFAULT_FLOOR, LearningPolicy
from upturn.arbiter.policies.hierarchical import HierarchicalThompson
from upturn.arbiter.policies.linear import LinearThompson, LinUCB
from upturn.arbiter.policies.make import make_policy
from upturn.arbiter.policies.normal import probability_largest
from upturn.arbiter.policies.simple import UCB1, CheapestAboveBar, FixedWeights

__all__ = [
    "DEFAULT_FLOOR",
    "UCB1",
    "CheapestAboveBar",
    "FixedWeights",
    "HierarchicalThompson",
    "LearningPolicy",
    "LinUCB",
    "LinearThompson",
    "make_policy",
    "probability_largest",
]
