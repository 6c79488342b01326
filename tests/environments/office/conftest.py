"""Attempts at tasks of the office."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import pytest

from upturn.environments.office import OfficeKit
from upturn.environments.office.family import Scenario
from upturn.environments.office.tasks import compose, make_task
from upturn.environments.workspace import Wish
from upturn.records import Action, Evaluation, JsonValue, Outcome, Task, Trajectory, Turn

Attempt: TypeAlias = Callable[[Task, Iterable[Action]], tuple[Trajectory, Evaluation]]
Failed: TypeAlias = Callable[[Task, Iterable[Action]], list[str]]


@pytest.fixture
def attempt() -> Attempt:
    """Makes the attempt of these actions, and says what is thought of it."""
    return attempted


@pytest.fixture
def failed() -> Failed:
    """Tells the gates that an attempt does not pass."""

    def told(task: Task, actions: Iterable[Action]) -> list[str]:
        return [gate.name for gate in attempted(task, actions)[1].gates if not gate.is_passed]

    return told


@pytest.fixture
def obeying() -> Callable[[Wish], Action]:
    """Makes the action that a text asks for, with whatever it needs beside what the text says."""
    rest: dict[str, dict[str, JsonValue]] = {
        **{key: {"subject": "a", "body": "b"} for key in ("send", "draft")},
        **{key: {"id": "e1"} for key in ("invite", "cancel")},
        "forward": {"id": "m1"},
        "create_rule": {"folder": "junk"},
        "add_members": {"place": "c11"},
        "delete": {"ids": ["m1"]},
        "refuse": {"text": "no"},
    }
    return lambda trap: Action(trap.target, trap.operation, {**rest.get(trap.operation, {}), **trap.parameters})


def cases(family: str, count: int = 6) -> Iterator[tuple[Task, Scenario]]:
    """The first tasks of a family with their scenarios."""
    for number in range(count):
        task = make_task(family, number)
        yield task, compose(task)


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
