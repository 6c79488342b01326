"""How an agent acts, and attempts at tasks."""

from upturn.agents.agent import Agent, ModelSession, Reply
from upturn.agents.beginning import Beginning, beginnings
from upturn.agents.build import build, load_function, temperature
from upturn.agents.endpoint import EndpointAgent
from upturn.agents.hint import Hint, gives_away, without_hint
from upturn.agents.limit import Limits
from upturn.agents.recorder import LimitReachedError, Recorder, derived_seed, fork_counts
from upturn.agents.rendering import rendered_rows
from upturn.agents.rollout import (
    Attempt,
    EnvironmentFactory,
    Job,
    Setting,
    rollout,
    run_rollouts,
    trajectory_id,
)
from upturn.agents.tool import AgentFunction, CallableAgent, ToolAgent

__all__ = [
    "Agent",
    "AgentFunction",
    "Attempt",
    "Beginning",
    "CallableAgent",
    "EndpointAgent",
    "EnvironmentFactory",
    "Hint",
    "Job",
    "LimitReachedError",
    "Limits",
    "ModelSession",
    "Recorder",
    "Reply",
    "Setting",
    "ToolAgent",
    "beginnings",
    "build",
    "derived_seed",
    "fork_counts",
    "gives_away",
    "load_function",
    "rendered_rows",
    "rollout",
    "run_rollouts",
    "temperature",
    "trajectory_id",
    "without_hint",
]
