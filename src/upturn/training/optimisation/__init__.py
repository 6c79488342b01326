"""One optimiser step: rows in, updated weights out.

Here: the token tree of rows, micro-batches, the forward pass with its attention kernels, the trainer, learning-
rate schedules, the critic's network, LoRA adapters and memory estimates. Not here: what a loss is (``losses``),
what an algorithm does with the steps (``algorithms``), and checkpoints (``runs``). Start with ``trainer``, then
``forward``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.optimisation.aggregation import Sampled, denominator, sampled_of, scales
from upturn.training.optimisation.batch import written_tokens
from upturn.training.optimisation.memory_estimate import Memory, memory, shape_of
from upturn.training.optimisation.mismatch import WrittenLogprobs, mismatch
from upturn.training.optimisation.sampler_check import Rescored, RescoringSettings, rescore
from upturn.training.optimisation.schedule import IterationSchedule, schedule

if TYPE_CHECKING:
    from upturn.training.optimisation.adapter import adapt, merged, save_adapter
    from upturn.training.optimisation.critic import Critic, value_model
    from upturn.training.optimisation.full_weights import FullCopy, frozen_scorer
    from upturn.training.optimisation.trainer import StepMetrics, Trainer, torch_threads
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "adapt": "adapter",
            "merged": "adapter",
            "save_adapter": "adapter",
            "Critic": "critic",
            "value_model": "critic",
            "FullCopy": "full_weights",
            "frozen_scorer": "full_weights",
            "StepMetrics": "trainer",
            "Trainer": "trainer",
            "torch_threads": "trainer",
        },
    )

__all__ = [
    "Critic",
    "FullCopy",
    "IterationSchedule",
    "Memory",
    "Rescored",
    "RescoringSettings",
    "Sampled",
    "StepMetrics",
    "Trainer",
    "WrittenLogprobs",
    "adapt",
    "denominator",
    "frozen_scorer",
    "memory",
    "merged",
    "mismatch",
    "rescore",
    "sampled_of",
    "save_adapter",
    "scales",
    "schedule",
    "shape_of",
    "torch_threads",
    "value_model",
    "written_tokens",
]
