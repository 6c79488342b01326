"""Potentials are recorded with their state, and agents never see them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from upturn.agents import Job, RolloutRequest, Setting, branch_points, run_rollouts
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


class RecordingAgent:
    """Does these operations in order and records the turns that it gets."""

    def __init__(self, *operations: str) -> None:
        self.operations = operations
        self.visible_turns: list[Turn] = []

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        self.visible_turns += turns
        operation = self.operations[len(turns)]
        return Reply(operation, Action("c", operation))


def _play(agent: RecordingAgent, *requests: RolloutRequest) -> list[Trajectory]:
    setting = Setting("run", agent, "a@1", None, clock=lambda: 0.0)
    return asyncio.run(run_rollouts([Job(request, setting) for request in requests], lambda _: Count()))


def test_each_turn_has_the_potential_of_its_initial_state() -> None:
    agent = RecordingAgent("on", "on", "finish")
    (trajectory,) = _play(agent, RolloutRequest(TASK, 0, 0))
    assert (trajectory.outcome, [turn.potential for turn in trajectory.turns]) == (
        "environment_error",
        [0.0, 0.5, 1.0],
    )
    assert len(agent.visible_turns) == 3
    assert {turn.potential for turn in agent.visible_turns} == {None}


def test_a_continuation_records_the_potentials_before_the_branch_point() -> None:
    agent = RecordingAgent("on", "finish")
    (trajectory,) = _play(agent, RolloutRequest(TASK, 0, 0))
    states = branch_points(trajectory, TASK, Count())
    assert [state.potential for state in states] == [0.0, 0.5]
    continuations = _play(agent, *(RolloutRequest(TASK, number, 0, state) for number, state in enumerate(states)))
    assert [continuation.turns for continuation in continuations] == [trajectory.turns, trajectory.turns]
    assert {turn.potential for turn in agent.visible_turns} == {None}


class InvalidPotential(Count):
    """Has this potential from the count ``since`` on, and 0 before."""

    def __init__(self, potential: Any, since: int) -> None:
        super().__init__()
        self.potential, self.since = potential, since

    def _info(self) -> Info:
        return Info(
            {}, {}, state_hash=str(self.count), potential=self.potential if self.count >= self.since else 0.0
        )


def _play_in(environment: Count, agent: RecordingAgent) -> Trajectory:
    setting = Setting("run", agent, "a@1", None, clock=lambda: 0.0)
    (trajectory,) = asyncio.run(run_rollouts([Job(RolloutRequest(TASK, 0, 0), setting)], lambda _: environment))
    assert from_fields(Trajectory, fields_json(trajectory)) == trajectory
    return trajectory


@pytest.mark.parametrize(
    "potential", [2.0, 1.0000001, -0.5, float("nan"), float("inf"), "half", 1, True, [0.5]], ids=repr
)
def test_an_invalid_potential_is_an_environment_error(potential: Any) -> None:
    error = (
        f"WorldError: the environment gave the potential {potential!r}; potentials are floats in [0, 1], or None"
    )
    stepped = _play_in(InvalidPotential(potential, since=1), RecordingAgent("on", "finish"))
    assert (stepped.outcome, stepped.error) == ("environment_error", error)
    assert [(turn.text, turn.potential) for turn in stepped.turns] == [("on", 0.0)]
    assert stepped.final_observation.code == "environment_error"
    opened = _play_in(InvalidPotential(potential, since=0), RecordingAgent("on", "finish"))
    assert (opened.outcome, opened.error, opened.turns) == ("environment_error", error, ())


@pytest.mark.parametrize("potential", [None, 0.0, 0.25, 1.0])
def test_potentials_0_and_1_and_none_are_valid(potential: float | None) -> None:
    trajectory = _play_in(InvalidPotential(potential, since=0), RecordingAgent("on", "finish"))
    assert (trajectory.outcome, trajectory.error) == ("finished", "")
    assert [turn.potential for turn in trajectory.turns] == [potential] * 2
