"""Direct preference optimisation on pairs of the model's own fresh rollouts, in rounds.

Start with ``run``; ``action_value`` values single actions with a critic.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.online_dpo.settings import OnlineDpoSettings

if TYPE_CHECKING:
    from upturn.training.algorithms.online_dpo.run import run_online_dpo
else:
    __getattr__ = lazy_names(__name__, {"run_online_dpo": "run"})

__all__ = ["OnlineDpoSettings", "run_online_dpo"]
