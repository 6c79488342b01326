"""A panel of unusual but right solutions, which the verifier must accept.

Each is the oracle with one thing done differently: an answer in other words, calls in another form or order,
another formula. A solution decides which tasks it fits. Not here: wrong solutions (``kit``,
``environments.validation``). Start with ``panel``.
"""

from upturn.environments.office.solutions.panel import PANEL, right_solutions

__all__ = ["PANEL", "right_solutions"]
