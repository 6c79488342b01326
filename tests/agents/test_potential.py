"""Potentials are recorded with the state they are of, and agents never see them."""

import asyncio
from collections.abc import Mapping, Sequence

from upturn.agents import Attempt, Job, Setting, beginnings, run_rollouts
from upturn.agents.agent import ModelSession, Reply
from upturn.environments.environment import Info, Step
from upturn.records import Action, JsonValue, Observation, Task, Trajectory, Turn

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
    return asyncio.run(run_rollouts([Job(each, setting) for each in attempts], lambda _: Count()))


def test_each_turn_has_the_potential_of_the_state_it_began_in() -> None:
    agent = Watchful("on", "on", "finish")
    (made,) = _played(agent, Attempt(TASK, 0, 0))
    assert (made.outcome, [turn.potential for turn in made.turns]) == ("environment_error", [0.0, 0.5, 1.0])
    assert len(agent.seen) == 3
    assert {turn.potential for turn in agent.seen} == {None}


def test_an_attempt_that_goes_on_records_the_potentials_of_the_one_before_it() -> None:
    agent = Watchful("on", "finish")
    (made,) = _played(agent, Attempt(TASK, 0, 0))
    states = beginnings(made, TASK, Count())
    assert [state.potential for state in states] == [0.0, 0.5]
    again = _played(agent, *(Attempt(TASK, number, 0, state) for number, state in enumerate(states)))
    assert [each.turns for each in again] == [made.turns, made.turns]
    assert {turn.potential for turn in agent.seen} == {None}
