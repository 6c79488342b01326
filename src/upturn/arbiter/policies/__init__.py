"""Policies that learn with shared code: Thompson sampling, LinUCB, UCB1, fixed weights, the cheapest above a bar.

The contract and the policies on plain discounted counts are in ``arbiter.policy``. Start with ``base``, then
``hierarchical``, the default.
"""

from upturn.arbiter.policies.base import DEFAULT_FLOOR, LearningPolicy
from upturn.arbiter.policies.gaussian import GaussianThompson
from upturn.arbiter.policies.hierarchical import HierarchicalThompson
from upturn.arbiter.policies.linear import LinearThompson, LinUCB
from upturn.arbiter.policies.logistic import LogisticThompson
from upturn.arbiter.policies.make import make_policy
from upturn.arbiter.policies.neighbours import NearestNeighbours
from upturn.arbiter.policies.normal import probability_largest
from upturn.arbiter.policies.simple import UCB1, CheapestAboveBar, FixedWeights
from upturn.arbiter.policies.sliding import SlidingThompson

__all__ = [
    "DEFAULT_FLOOR",
    "UCB1",
    "CheapestAboveBar",
    "FixedWeights",
    "GaussianThompson",
    "HierarchicalThompson",
    "LearningPolicy",
    "LinUCB",
    "LinearThompson",
    "LogisticThompson",
    "NearestNeighbours",
    "SlidingThompson",
    "make_policy",
    "probability_largest",
]
