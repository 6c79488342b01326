"""Policies without a model, and their trajectories: for oracles, floors, attacks and checks."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from upturn.config import EnvironmentConfig
from upturn.environments.environment import Environment
from upturn.records import Action, Observation, Outcome, Task, Trajectory, Turn

ScriptedPolicy: TypeAlias = Callable[[Task, Sequence[Turn], Observation], Action | None]
"""The next action after these turns and the current observation; None stops without ending the task."""

MAX_TURNS = EnvironmentConfig().max_turns
"""The configuration's default."""
LONG_TURNS = 50
"""The limit for long trajectories: those of people, and those on frozen suites."""


def play(environment: Environment, task: Task, policy: ScriptedPolicy, *, max_turns: int = MAX_TURNS) -> Trajectory:
    """The policy's trajectory from ``reset``, until the task ends, the policy stops or the turns are used up."""
    observation, info = environment.reset(task)
    turns: list[Turn] = []
    outcome: Outcome = "step_limit"
    while len(turns) < max_turns:
        action = policy(task, turns, observation)
        if action is None:
            break
        step = environment.step(action)
        costs = step.info.cost_components
        turns.append(Turn(observation, "", action, step.reward, costs, info.state_hash, info.potential))
        observation, info = step.observation, step.info
        if step.is_terminated:
            outcome = "finished"
            break
    return Trajectory(
        id=f"player/{task.id}",
        task_id=task.id,
        agent_version="player@1",
        turns=tuple(turns),
        final_observation=observation,
        outcome=outcome,
        origin="rendered",
        final_state=environment.state(),
    )


def fixed_policy(actions: Sequence[Action]) -> ScriptedPolicy:
    """A policy that takes these actions, regardless of observations, and stops."""
    return lambda _task, turns, _observation: actions[len(turns)] if len(turns) < len(actions) else None
