"""How an agent acts, and attempts at tasks."""

from upturn.agents.agent import Agent, ModelSession, Reply
from upturn.agents.limit import Limits
from upturn.agents.recorder import LimitReachedError, Recorder, derived_seed, fork_counts
from upturn.agents.rollout import (
    MALFORMED,
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
    "MALFORMED",
    "Agent",
    "AgentFunction",
    "Attempt",
    "CallableAgent",
    "EnvironmentFactory",
    "Job",
    "LimitReachedError",
    "Limits",
    "ModelSession",
    "Recorder",
    "Reply",
    "Setting",
    "ToolAgent",
    "derived_seed",
    "fork_counts",
    "rollout",
    "run_rollouts",
    "trajectory_id",
]
