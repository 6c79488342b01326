"""Potentials are recorded with the state they are of, and agents never see them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from upturn.agents import Attempt, Job, Setting, branch_points, run_rollouts
from upturn.agents.agent import ModelSession, Reply
from upturn.environments.environment import Info, Step
from upturn.records import Action, JsonValue, Observation, Task, Trajectory, Turn, fields_json, from_fields

TASK = Task("t1", "count to two", "count", "count")


class Count:
    """Half done after one step, done after two; the third breaks it."""

    def __init__(self) -> None:
        self.count = 0

    def reset(self, task: Task) -> tuple[Observation, Info]:
        self.count = 0
        return Observation(task.instruction), self._info()

    def step(self, action: Action) -> Step:
        self.count += 1
        if self.count == 3:
            raise RuntimeError("counted too far")
        return Step(Observation(str(self.count)), 0.0, action.operation == "finish", False, self._info())

    def state(self) -> Mapping[str, JsonValue]:
        return {"count": self.count}

    def snapshot(self) -> object:
        return self.count

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, int)
        self.count = snapshot

    def _info(self) -> Info:
        return Info({}, {}, state_hash=str(self.count), potential=self.count / 2)


class Watchful:
    """Acts as told and keeps what it was shown."""

    def __init__(self, *operations: str) -> None:
        self.operations = operations
        self.seen: list[Turn] = []

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        self.seen += turns
        operation = self.operations[len(turns)]
        return Reply(operation, Action("c", operation))


def _played(agent: Watchful, *attempts: Attempt) -> list[Trajectory]:
    setting = Setting("run", agent, "a@1", None, clock=lambda: 0.0)
    return asyncio.run(run_rollouts([Job(attempt, setting) for attempt in attempts], lambda _: Count()))


def test_each_turn_has_the_potential_of_its_initial_state() -> None:
    agent = Watchful("on", "on", "finish")
    (made,) = _played(agent, Attempt(TASK, 0, 0))
    assert (made.outcome, [turn.potential for turn in made.turns]) == ("environment_error", [0.0, 0.5, 1.0])
    assert len(agent.seen) == 3
    assert {turn.potential for turn in agent.seen} == {None}


def test_a_continuation_records_the_potentials_before_the_branch_point() -> None:
    agent = Watchful("on", "finish")
    (made,) = _played(agent, Attempt(TASK, 0, 0))
    states = branch_points(made, TASK, Count())
    assert [state.potential for state in states] == [0.0, 0.5]
    again = _played(agent, *(Attempt(TASK, number, 0, state) for number, state in enumerate(states)))
    assert [each.turns for each in again] == [made.turns, made.turns]
    assert {turn.potential for turn in agent.seen} == {None}


class Wrong(Count):
    """Gives ``potential`` once it has counted to ``since``, and a right one before."""

    def __init__(self, potential: Any, since: int) -> None:
        super().__init__()
        self.given, self.since = potential, since

    def _info(self) -> Info:
        return Info({}, {}, state_hash=str(self.count), potential=self.given if self.count >= self.since else 0.0)


def _one(environment: Count, agent: Watchful) -> Trajectory:
    setting = Setting("run", agent, "a@1", None, clock=lambda: 0.0)
    (made,) = asyncio.run(run_rollouts([Job(Attempt(TASK, 0, 0), setting)], lambda _: environment))
    assert from_fields(Trajectory, fields_json(made)) == made
    return made


@pytest.mark.parametrize(
    "potential", [2.0, 1.0000001, -0.5, float("nan"), float("inf"), "half", 1, True, [0.5]], ids=repr
)
def test_an_invalid_potential_is_an_environment_error(potential: Any) -> None:
    error = (
        f"WorldError: the environment gave the potential {potential!r}; potentials are floats in [0, 1], or None"
    )
    stepped = _one(Wrong(potential, since=1), Watchful("on", "finish"))
    assert (stepped.outcome, stepped.error) == ("environment_error", error)
    assert [(turn.text, turn.potential) for turn in stepped.turns] == [("on", 0.0)]
    assert stepped.final_observation.code == "environment_error"
    opened = _one(Wrong(potential, since=0), Watchful("on", "finish"))
    assert (opened.outcome, opened.error, opened.turns) == ("environment_error", error, ())


@pytest.mark.parametrize("potential", [None, 0.0, 0.25, 1.0])
def test_potentials_0_and_1_and_none_are_valid(potential: float | None) -> None:
    made = _one(Wrong(potential, since=0), Watchful("on", "finish"))
    assert (made.outcome, made.error) == ("finished", "")
    assert [turn.potential for turn in made.turns] == [potential] * 2
