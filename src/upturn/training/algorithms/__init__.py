"""The training algorithms: one room each.

A folder has the settings and a ``run_…`` function, which turns rows or fresh rollouts into the weight streams of
optimiser steps. Variants of GRPO (RLOO, DAPO, …) are presets in ``grpo``. Shared by several: the policy gradient
without a critic, and training in epochs. Not here: advantage estimators (``advantages``), losses (``losses``) and
the trainer (``optimisation``). Start with ``sft``, the shortest, then ``grpo``."""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names

if TYPE_CHECKING:
    from upturn.training.algorithms.policy_gradient import PolicyGradient
else:
    __getattr__ = lazy_names(__name__, {"PolicyGradient": "policy_gradient"})

__all__ = ["PolicyGradient"]
