"""Failing agents and environments: recorded as the outcome of their rollout; the others are unaffected."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from upturn.agents import CallableAgent, Job, RolloutRequest, Setting, run_rollouts
from upturn.config import Limits
from upturn.environments.environment import Info, Step
from upturn.records import Action, JsonValue, Observation, Task, Trajectory, Turn, fields_json, from_fields

TASK = Task("t", "go", "count", "counter")


class Desk:
    """Counts actions; ``user.finish`` ends it; an empty target is an error."""

    def __init__(self, **answers: Any) -> None:
        self.count = 0
        self.answers = answers
        """Values in place of the correct ``observation``, ``reward``, ``costs`` or ``state``."""

    def reset(self, task: Task) -> tuple[Observation, Info]:
        return Observation(task.instruction), Info({}, {}, state_hash="h")

    def step(self, action: Action) -> Step:
        self.count += 1
        observation = Observation(str(self.count)) if action.target else Observation("what?", "malformed")
        return Step(
            self.answers.get("observation", observation),
            self.answers.get("reward", 0.0),
            action.operation == "finish",
            False,
            Info({}, self.answers.get("costs", {"error": 1.0})),
        )

    def state(self) -> Mapping[str, JsonValue]:
        state: dict[str, JsonValue] = self.answers.get("state", {"count": self.count})
        return state

    def snapshot(self) -> object:
        return self.count

    def restore(self, snapshot: object) -> None:
        self.count = int(str(snapshot))


def play(*functions: Callable[..., Any], limits: Limits | None = None, **answers: Any) -> list[Trajectory]:
    """One concurrent rollout of each function; checks that every trajectory round-trips through its record."""
    jobs = [
        Job(
            RolloutRequest(replace(TASK, id=f"t{index}"), 0, index),
            Setting("run", CallableAgent(function), f"a{index}@1", None, limits or Limits(max_turns=3)),
        )
        for index, function in enumerate(functions)
    ]
    trajectories = asyncio.run(run_rollouts(jobs, lambda _: Desk(**answers)))
    for trajectory in trajectories:
        assert from_fields(Trajectory, fields_json(trajectory)) == trajectory
    return trajectories


def finish(*_: object) -> str:
    return "user.finish"


@pytest.mark.parametrize(
    "answer",
    [
        "\ud800",
        "mail.list id=\ud800",
        Action("mail", "list", {"id": "\ud800"}),
        Action("mail", "list", {"\ud800": 1}),
    ],
)
def test_non_unicode_text_gets_an_error_observation(answer: str | Action) -> None:
    def broken_once(_: str, turns: Sequence[Turn], __: Observation) -> str | Action:
        return "user.finish" if turns else answer

    (trajectory,) = play(broken_once)
    assert (trajectory.outcome, len(trajectory.turns)) == ("finished", 2)
    assert trajectory.turns[0].action is None
    assert trajectory.turns[1].observation == Observation("what?", "malformed")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (None, "TypeError: an agent function must return an Action or a str, got a NoneType"),
        (b"user.finish", "TypeError: an agent function must return an Action or a str, got a bytes"),
        ({"target": "user"}, "TypeError: an agent function must return an Action or a str, got a dict"),
    ],
)
def test_an_answer_of_another_type_is_a_model_error(answer: Any, error: str) -> None:
    broken, sibling = play(lambda *_: answer, finish)
    assert (broken.outcome, broken.error, broken.turns) == ("model_error", error, ())
    assert sibling.outcome == "finished"


class _SilentError(Exception):
    def __str__(self) -> str:
        raise ValueError("no message")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("\ud800"), "ValueError: \\ud800"),
        (_SilentError(), "_SilentError: its message cannot be shown"),
        (ValueError("x" * 10**6), "ValueError: " + "x" * 988),
        (SystemExit(3), "RuntimeError: the agent function raised SystemExit"),
        (asyncio.CancelledError(), "RuntimeError: the agent function raised CancelledError"),
    ],
    ids=["unicode", "silent", "endless", "exit", "cancelled"],
)
def test_any_exception_of_an_agent_is_recorded(error: BaseException, message: str) -> None:
    def raising(*_: object) -> str:
        raise error

    async def raising_later(*_: object) -> str:
        await asyncio.sleep(0)
        raise error

    plain, later, sibling = play(raising, raising_later, finish)
    assert (plain.outcome, plain.error) == ("model_error", message)
    assert (later.outcome, later.error) == ("model_error", message)
    assert sibling.outcome == "finished"


def test_an_endless_answer_is_truncated() -> None:
    (trajectory,) = play(lambda *_: "user.finish text=" + "x" * 3_000_000, limits=Limits(max_turns=1))
    assert (trajectory.turns[0].action, len(trajectory.turns[0].text)) == (None, 2**20)


def test_an_agent_cannot_change_the_record() -> None:
    actions: list[Action] = []

    def meddling(_: str, turns: Sequence[Turn], __: Observation) -> Action:
        for turn in turns:
            turn.costs["error"] = 0.0  # type: ignore[index]
            assert turn.action is not None
            turn.action.parameters["list"].append("more")  # type: ignore[union-attr]
        for action in actions:
            action.parameters["list"].append("later")  # type: ignore[union-attr]
        actions.append(Action("desk", "add", {"list": ["first"]}))
        return actions[-1]

    (trajectory,) = play(meddling)
    assert len(trajectory.turns) == 3
    for turn in trajectory.turns:
        assert turn.costs == {"error": 1.0}
        assert turn.action == Action("desk", "add", {"list": ["first"]})


@contextmanager
def blocking() -> Iterator[Callable[..., str]]:
    """A function that does not return before the context exits."""
    release = threading.Event()

    def block(*_: object) -> str:
        release.wait()
        return "user.finish"

    try:
        yield block
    finally:
        release.set()


def clock(*seconds: float) -> Callable[[], float]:
    """A clock with these readings, one at the start and one before each turn; the last one is repeated."""
    readings = list(seconds)
    return lambda: readings.pop(0) if len(readings) > 1 else readings[0]


def test_a_hanging_agent_reaches_the_time_limit_alone() -> None:
    async def sleeping(*_: object) -> str:
        await asyncio.Event().wait()
        return "user.finish"

    def late(_: str, turns: Sequence[Turn], __: Observation) -> str:
        return block() if turns else "desk.add"

    # With 100 seconds left nothing times out; with 10 ms left, only an agent that does not return.
    timed = Setting("run", CallableAgent(finish), "a@1", None, Limits(max_seconds=100.0))
    with blocking() as block:
        settings = [
            replace(timed, agent=CallableAgent(block), clock=clock(0, 99.99)),
            replace(timed, agent=CallableAgent(sleeping), clock=clock(0, 99.99)),
            replace(timed, agent=CallableAgent(late), clock=clock(0, 0, 99.99)),
            replace(timed, clock=clock(0)),
        ]
        jobs = [Job(RolloutRequest(TASK, number, 0), setting) for number, setting in enumerate(settings)]
        stuck, asleep, second, sibling = asyncio.run(run_rollouts(jobs, lambda _: Desk()))
    assert [trajectory.outcome for trajectory in (stuck, asleep, second)] == ["time_limit"] * 3
    assert (stuck.turns, stuck.error, stuck.final_state) == ((), "", {"count": 0})
    assert ([turn.text for turn in second.turns], second.final_state) == (["desk.add"], {"count": 1})
    assert sibling.outcome == "finished"


def test_an_agents_own_timeout_is_its_error() -> None:
    def impatient(*_: object) -> str:
        raise TimeoutError("the service did not answer")

    (trajectory,) = play(impatient, limits=Limits(max_seconds=60.0))
    assert (trajectory.outcome, trajectory.error) == ("model_error", "TimeoutError: the service did not answer")


def test_a_hanging_function_does_not_delay_the_exit() -> None:
    program = (
        "import asyncio, threading\n"
        "from upturn.agents import *\nfrom upturn.config import Limits\n"
        "from benchmarks.errands.kit import ErrandsKit\n"
        "kit = ErrandsKit()\n"
        "task = next(iter(kit.tasks(seed=0, split='train', families=['mail_file'])))\n"
        "setting = Setting('k', CallableAgent(lambda *_: threading.Event().wait()), 'a@1', None,"
        " Limits(max_seconds=0.1))\n"
        "print(asyncio.run(rollout(RolloutRequest(task, 0, 0), kit.environment, setting)).outcome)\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, "time_limit\n", "")


@pytest.mark.parametrize(
    "answers",
    [
        {"observation": Observation("\ud800")},
        {"observation": Observation(5)},  # type: ignore[arg-type]
        {"reward": "much"},
        {"reward": float("nan")},
        {"costs": {"error": float("inf")}},
        {"costs": {"error": "1"}},
        {"costs": 3},
        {"state": {"count": {1, 2}}},
        {"state": None},
    ],
    ids=repr,
)
def test_unrecordable_observations_are_an_environment_error(answers: dict[str, Any]) -> None:
    first, second = play(finish, finish, **answers)
    assert first.outcome == second.outcome == "environment_error"
    assert first.error


def test_agents_without_a_model_have_separate_slots() -> None:
    class UnusedModel:
        async def generate(self, request: Any) -> Any:
            raise AssertionError("not called")

        def release(self, session: str) -> None:
            pass

    waiting = 0

    async def meet(*_: object) -> str:
        nonlocal waiting
        waiting += 1
        for _round in range(100):
            await asyncio.sleep(0)
        return "user.finish" if waiting == 2 else "desk.add"

    setting = Setting("run", CallableAgent(meet), "a@1", UnusedModel())
    jobs = [
        Job(RolloutRequest(TASK, 0, 0), setting),
        Job(RolloutRequest(TASK, 0, 0), replace(setting, agent_version="b@1", model=None)),
    ]
    trajectories = asyncio.run(run_rollouts(jobs, lambda _: Desk(), slots=1))
    assert [trajectory.outcome for trajectory in trajectories] == ["finished", "finished"]
