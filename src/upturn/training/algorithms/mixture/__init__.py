"""Several algorithms in the same optimiser steps, each divided by its own denominator.

Start with ``run``; ``parts`` has the ready-made parts.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.mixture.settings import MixtureSettings

if TYPE_CHECKING:
    from upturn.training.algorithms.mixture.parts import policy_part, preference_part, rating_part, supervised_part
    from upturn.training.algorithms.mixture.run import Part, run_mixture
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "policy_part": "parts",
            "preference_part": "parts",
            "rating_part": "parts",
            "supervised_part": "parts",
            "Part": "run",
            "run_mixture": "run",
        },
    )

__all__ = [
    "MixtureSettings",
    "Part",
    "policy_part",
    "preference_part",
    "rating_part",
    "run_mixture",
    "supervised_part",
]
