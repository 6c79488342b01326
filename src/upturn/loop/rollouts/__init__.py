"""Rollouts for training: who samples, with which weights, and what comes back.

Here: the version under training, rollouts in this process, in Ray workers or by an engine at a URL, weight
hand-over, hinted retries and measured state values. Not here: what is learned from rollouts (``trainers``).
Start with ``policy_worker``, then ``rollout_backend``.
"""

from upturn.loop.rollouts.curriculum import curriculum_collect
from upturn.loop.rollouts.hinted_retries import SecondAttempts
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutPlan, TaskSampler, in_training, put_on, scored
from upturn.loop.rollouts.ray_rollouts import OpenPolicyWorker, RayRuntime
from upturn.loop.rollouts.rollout_backend import check_sampler, follow, sampling
from upturn.loop.rollouts.state_values import (
    Continuations,
    Continued,
    continued,
    measure_values,
    written_from_states,
)

__all__ = [
    "Continuations",
    "Continued",
    "OpenPolicyWorker",
    "PolicyWorker",
    "RayRuntime",
    "RolloutPlan",
    "SecondAttempts",
    "TaskSampler",
    "check_sampler",
    "continued",
    "curriculum_collect",
    "follow",
    "in_training",
    "measure_values",
    "put_on",
    "sampling",
    "scored",
    "written_from_states",
]
