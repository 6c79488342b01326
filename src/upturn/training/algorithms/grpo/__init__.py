"""Group-relative policy optimisation and the named algorithms that differ from it in settings.

Not here: advantage estimators (``advantages``) and losses (``losses``). Start with ``run_grpo``; ``presets`` has
the papers and our departures from them."""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.grpo.presets import PRESETS
from upturn.training.algorithms.grpo.settings import GrpoSettings, preset

if TYPE_CHECKING:
    from upturn.training.algorithms.grpo.run import run_grpo
else:
    __getattr__ = lazy_names(__name__, {"run_grpo": "run"})

__all__ = ["PRESETS", "GrpoSettings", "preset", "run_grpo"]
