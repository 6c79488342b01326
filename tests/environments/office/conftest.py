"""Attempts at tasks of the office."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import pytest

from upturn.environments.office import OfficeKit
from upturn.records import Action, Evaluation, Outcome, Task, Trajectory, Turn

Attempt: TypeAlias = Callable[[Task, Iterable[Action]], tuple[Trajectory, Evaluation]]


@pytest.fixture
def attempt() -> Attempt:
    """Makes the attempt of these actions, and says what is thought of it."""
    return attempted


def attempted(task: Task, actions: Iterable[Action]) -> tuple[Trajectory, Evaluation]:
    """The attempt that makes these actions, and what is said of it."""
    kit = OfficeKit()
    environment = kit.environment(task)
    observation, _ = environment.reset(task)
    turns: list[Turn] = []
    outcome: Outcome = "step_limit"
    for action in actions:
        step = environment.step(action)
        turns.append(Turn(observation, "", action, step.reward, step.info.cost_components))
        observation = step.observation
        if step.is_terminated:
            outcome = "finished"
    trajectory = Trajectory(
        id="attempt",
        task_id=task.id,
        agent_version="test@1",
        turns=tuple(turns),
        final_observation=observation,
        outcome=outcome,
        origin="rendered",
        final_state=environment.state(),
    )
    return trajectory, kit.verifier.verify(task, trajectory)
