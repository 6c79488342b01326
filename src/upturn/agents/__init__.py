"""How an agent acts, and attempts at tasks."""

from upturn.agents.agent import Agent, ModelSession, Reply
from upturn.agents.branch_point import Beginning, beginnings, whole_attempt
from upturn.agents.build import build, load_function, precision, prompts_for, temperature, template_options
from upturn.agents.cluster import Crew, Played, Work, play
from upturn.agents.endpoint import EndpointAgent
from upturn.agents.hint import Hint, gives_away, without_hint
from upturn.agents.ray_workers import CrewSettings, RayCrew, check_cluster
from upturn.agents.recorder import LimitReachedError, Recorder, derived_seed, fork_counts
from upturn.agents.rendering import has_tokens_of, rendered_rows
from upturn.agents.rollout import Attempt, EnvironmentFactory, Job, Setting, rollout, run_rollouts, trajectory_id
from upturn.agents.tool import AgentFunction, CallableAgent, ToolAgent

__all__ = [
    "Agent",
    "AgentFunction",
    "Attempt",
    "Beginning",
    "CallableAgent",
    "Crew",
    "CrewSettings",
    "EndpointAgent",
    "EnvironmentFactory",
    "Hint",
    "Job",
    "LimitReachedError",
    "ModelSession",
    "Played",
    "RayCrew",
    "Recorder",
    "Reply",
    "Setting",
    "ToolAgent",
    "Work",
    "beginnings",
    "build",
    "check_cluster",
    "derived_seed",
    "fork_counts",
    "gives_away",
    "has_tokens_of",
    "load_function",
    "play",
    "precision",
    "prompts_for",
    "rendered_rows",
    "rollout",
    "run_rollouts",
    "temperature",
    "template_options",
    "trajectory_id",
    "whole_attempt",
    "without_hint",
]
