"""Attempts at tasks of the suite, made of given actions."""

from collections.abc import Callable, Iterable

import pytest

from upturn.environments.suite import SuiteKit
from upturn.records import Action, Evaluation, Outcome, Task, Trajectory, Turn

Attempted = Callable[[Task, Iterable[Action]], tuple[Trajectory, Evaluation]]


@pytest.fixture(scope="session")
def attempted() -> Attempted:
    """Makes the attempt that consists of these actions; tells what is said of it."""
    kit = SuiteKit()

    def attempt(task: Task, actions: Iterable[Action]) -> tuple[Trajectory, Evaluation]:
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

    return attempt
