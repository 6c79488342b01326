"""Proximal policy optimisation with a critic, by turn or by token.

Start with ``run``; ``gae`` and ``credit`` compute advantages, ``credit_units`` defines a step, and
``critic_update`` trains the critic."""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.ppo.credit_units import group_steps
from upturn.training.algorithms.ppo.settings import CreditSettings, CriticSettings, PpoSettings, StepKind

if TYPE_CHECKING:
    from upturn.training.algorithms.ppo.critic_update import CriticUpdate
    from upturn.training.algorithms.ppo.run import run_ppo
else:
    __getattr__ = lazy_names(__name__, {"CriticUpdate": "critic_update", "run_ppo": "run"})

__all__ = ["CreditSettings", "CriticSettings", "CriticUpdate", "PpoSettings", "StepKind", "group_steps", "run_ppo"]
