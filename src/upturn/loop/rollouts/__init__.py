"""rollouts."""

from upturn.loop.rollouts.curriculum import curriculum_collect
from upturn.loop.rollouts.hinted_retries import SecondAttempts
from upturn.loop.rollouts.policy_worker import Practice, TaskSampler, Trainee, put_on, scored
from upturn.loop.rollouts.ray_rollouts import CrewFleet, OpenTrainee
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
    "CrewFleet",
    "OpenTrainee",
    "Practice",
    "SecondAttempts",
    "TaskSampler",
    "Trainee",
    "check_sampler",
    "continued",
    "curriculum_collect",
    "follow",
    "measure_values",
    "put_on",
    "sampling",
    "scored",
    "written_from_states",
]
