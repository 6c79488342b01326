"""How agents act, and rollouts: agents acting in environments until a trajectory is complete.

Start with ``agent`` (the contract) and ``rollout``; ``build`` makes an agent from its version. The agents are
``tool``, ``endpoint`` (with ``call_form``) and those of ``program``; ``context`` keeps prompts within a
token budget. ``cluster`` and ``ray_workers`` run rollouts in other processes. Not here: environments, training data
(``upturn.training.data``) and which version gets a task (``upturn.loop``).
"""

from typing import TYPE_CHECKING

from upturn.agents.agent import Agent, AttemptAgent, AttemptEnd, ModelSession, Reply
from upturn.agents.branch_point import BranchPoint, branch_points, full_trajectory
from upturn.agents.build import (
    build,
    endpoint_of,
    load_function,
    precision,
    prompt_builder_for,
    sampling,
    temperature,
    template_options,
)
from upturn.agents.cluster import LostWorker, WorkerPool, WorkerResults, WorkItem, run_on_workers
from upturn.agents.endpoint import EndpointAgent
from upturn.agents.examples import example_count, examples_text
from upturn.agents.hint import Hint, repeats_hint, without_hint
from upturn.agents.message_turn import call_action, seen_text, thought_of, written_text
from upturn.agents.paused import PausedRollout
from upturn.agents.ray_workers import RaySettings, RayWorkerPool, check_cluster
from upturn.agents.recorder import LimitReachedError, Recorder, call_counts, derived_seed, fork_counts
from upturn.agents.rendering import matches_tokenizer, render_trajectory, rendered_rows
from upturn.agents.rollout import (
    EnvironmentFactory,
    Job,
    RolloutRequest,
    Setting,
    rollout,
    run_rollouts,
    run_until,
    trajectory_id,
)
from upturn.agents.tool import AgentFunction, CallableAgent, ToolAgent
from upturn.lazy_names import lazy_names

if TYPE_CHECKING:
    from upturn.agents.program import Attempt, ProgramAgent
else:
    __getattr__ = lazy_names(__name__, {"Attempt": "program", "ProgramAgent": "program"})

__all__ = [
    "Agent",
    "AgentFunction",
    "Attempt",
    "AttemptAgent",
    "AttemptEnd",
    "BranchPoint",
    "CallableAgent",
    "EndpointAgent",
    "EnvironmentFactory",
    "Hint",
    "Job",
    "LimitReachedError",
    "LostWorker",
    "ModelSession",
    "PausedRollout",
    "ProgramAgent",
    "RaySettings",
    "RayWorkerPool",
    "Recorder",
    "Reply",
    "RolloutRequest",
    "Setting",
    "ToolAgent",
    "WorkItem",
    "WorkerPool",
    "WorkerResults",
    "branch_points",
    "build",
    "call_action",
    "call_counts",
    "check_cluster",
    "derived_seed",
    "endpoint_of",
    "example_count",
    "examples_text",
    "fork_counts",
    "full_trajectory",
    "load_function",
    "matches_tokenizer",
    "precision",
    "prompt_builder_for",
    "render_trajectory",
    "rendered_rows",
    "repeats_hint",
    "rollout",
    "run_on_workers",
    "run_rollouts",
    "run_until",
    "sampling",
    "seen_text",
    "temperature",
    "template_options",
    "thought_of",
    "trajectory_id",
    "without_hint",
    "written_text",
]
