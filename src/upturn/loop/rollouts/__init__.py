"""Rollouts for training: the version under training, the runtimes that sample from it, and what they return.

Here: rollouts by the run's runtime or in Ray workers, hinted retries and measured state values. Not here: sampling
by an engine at a URL (``engine_runtime``), training on rollouts (``trainers``). Start with ``policy_worker``, then
``rollout_backend``.
"""

from upturn.loop.rollouts.curriculum import curriculum_collect
from upturn.loop.rollouts.hinted_retries import HintedRetries
from upturn.loop.rollouts.imported_rows import UnwritableError, imported_rows
from upturn.loop.rollouts.partial_rollouts import PartialRollouts
from upturn.loop.rollouts.policy_worker import (
    PolicyWorker,
    RolloutSpec,
    TaskSampler,
    add_named_adapter,
    in_training,
    score_trajectory,
)
from upturn.loop.rollouts.ray_rollouts import PolicyWorkerFactory, RayRuntime
from upturn.loop.rollouts.rollout_backend import check_sampler, rollout_runtime, sampling_here
from upturn.loop.rollouts.state_values import (
    ContinuationReturns,
    ContinuationSpec,
    count_tokens_after_states,
    measure_values,
    sample_continuations,
)

__all__ = [
    "ContinuationReturns",
    "ContinuationSpec",
    "HintedRetries",
    "PartialRollouts",
    "PolicyWorker",
    "PolicyWorkerFactory",
    "RayRuntime",
    "RolloutSpec",
    "TaskSampler",
    "UnwritableError",
    "add_named_adapter",
    "check_sampler",
    "count_tokens_after_states",
    "curriculum_collect",
    "imported_rows",
    "in_training",
    "measure_values",
    "rollout_runtime",
    "sample_continuations",
    "sampling_here",
    "score_trajectory",
]
