"""World-model training: the model predicts its environment's answers and is rewarded for it.

Start with ``run``; ``prediction`` samples and scores predictions.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.algorithms.world_model.prediction import PredictionSource, Predictor, Sampler
from upturn.training.algorithms.world_model.settings import WorldModelSettings

if TYPE_CHECKING:
    from upturn.training.algorithms.world_model.run import run_world_model
else:
    __getattr__ = lazy_names(__name__, {"run_world_model": "run"})

__all__ = ["PredictionSource", "Predictor", "Sampler", "WorldModelSettings", "run_world_model"]
