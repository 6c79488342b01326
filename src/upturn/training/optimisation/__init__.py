"""One optimiser step: rows in, updated weights out.

Here: the token tree of rows, micro-batches, the forward pass with its attention kernels, the trainer, learning-rate
schedules, the critic's network, LoRA adapters and memory estimates. Not here: ``losses``, ``algorithms``, and
checkpoints (``runs``). Start with ``trainer``, then ``forward``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.optimisation.aggregation import (
    SampledCounts,
    count_sampled,
    denominator,
    is_masked,
    token_scales,
)
from upturn.training.optimisation.batch import written_tokens
from upturn.training.optimisation.memory_estimate import (
    DEFAULT_RANK,
    Load,
    Memory,
    configured_shape,
    estimate_memory,
    memory_choices,
    model_shape,
)
from upturn.training.optimisation.mismatch import WrittenLogprobs, mismatch
from upturn.training.optimisation.sampler_check import Rescored, RescoringSettings, rescore
from upturn.training.optimisation.schedule import IterationSchedule, schedule

if TYPE_CHECKING:
    from upturn.training.optimisation.adapter import add_adapter, merge_adapter, save_adapter
    from upturn.training.optimisation.critic import Critic, value_model
    from upturn.training.optimisation.full_weights import FullCopy, frozen_scorer
    from upturn.training.optimisation.logprob_head import Read, chosen_logprobs, state_values
    from upturn.training.optimisation.teacher_divergence import DistributionTeacher
    from upturn.training.optimisation.trainer import StepMetrics, Trainer, torch_threads
else:
    __getattr__ = lazy_names(
        __name__,
        dict.fromkeys(("add_adapter", "merge_adapter", "save_adapter"), "adapter")
        | dict.fromkeys(("Critic", "value_model"), "critic")
        | dict.fromkeys(("FullCopy", "frozen_scorer"), "full_weights")
        | dict.fromkeys(("Read", "chosen_logprobs", "state_values"), "logprob_head")
        | {"DistributionTeacher": "teacher_divergence"}
        | dict.fromkeys(("StepMetrics", "Trainer", "torch_threads"), "trainer"),
    )

__all__ = [
    "DEFAULT_RANK",
    "Critic",
    "DistributionTeacher",
    "FullCopy",
    "IterationSchedule",
    "Load",
    "Memory",
    "Read",
    "Rescored",
    "RescoringSettings",
    "SampledCounts",
    "StepMetrics",
    "Trainer",
    "WrittenLogprobs",
    "add_adapter",
    "chosen_logprobs",
    "configured_shape",
    "count_sampled",
    "denominator",
    "estimate_memory",
    "frozen_scorer",
    "is_masked",
    "memory_choices",
    "merge_adapter",
    "mismatch",
    "model_shape",
    "rescore",
    "save_adapter",
    "schedule",
    "state_values",
    "token_scales",
    "torch_threads",
    "value_model",
    "written_tokens",
]
