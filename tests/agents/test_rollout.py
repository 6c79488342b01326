import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from upturn.agents import (
    Agent,
    CallableAgent,
    Job,
    Reply,
    RolloutRequest,
    Setting,
    ToolAgent,
    derived_seed,
    fork_counts,
    run_rollouts,
    trajectory_id,
)
from upturn.agents.agent import ModelSession
from upturn.config import Limits
from upturn.environments.action import MALFORMED
from upturn.environments.environment import Info, Step
from upturn.errors import ModelError
from upturn.models import ParsedOutput, ScriptedModel, read_call
from upturn.records import Action, JsonValue, Observation, Task, Trajectory, Turn

END = 0
NO_LIMITS = Limits()


class LetterRenderer:
    """One token a letter; 0 ends an action."""

    stop_ids = (END,)

    def open(self, observation: Observation, prompt: str) -> tuple[int, ...]:
        return tuple(letters(f"{prompt}[{observation.text}]"))

    def extend(self, observation: Observation) -> tuple[int, ...]:
        return tuple(letters(f"[{observation.text}]"))

    def write(self, action: Action) -> tuple[int, ...]:
        return (*letters(f"{action.target}.{action.operation}"), END)

    def read(self, token_ids: Sequence[int]) -> ParsedOutput:
        is_ended = token_ids[-1:] == (END,)
        text = "".join(chr(token) for token in token_ids if token != END)
        return ParsedOutput(text, read_call(text) if is_ended else None)


def letters(text: str) -> list[int]:
    return [ord(letter) for letter in text]


class Counter:
    """Counts ``c.add``; ``user.finish`` ends it; ``c.break`` raises; any other action is an error."""

    def __init__(self, *, breaks_at: str = "") -> None:
        self.count = 0
        self.breaks_at = breaks_at
        self.actions: list[Action] = []

    def reset(self, task: Task) -> tuple[Observation, Info]:
        if self.breaks_at == "reset":
            raise OSError("no disk")
        return Observation(task.instruction), Info({}, {}, state_hash="h0")

    def step(self, action: Action) -> Step:
        self.actions.append(action)
        if action.operation == "break":
            raise OSError("no disk")
        is_known = action.operation in {"add", "finish"}
        self.count += action.operation == "add"
        info = Info({}, {} if is_known else {"error": 1.0}, state_hash=f"h{self.count}")
        observation = Observation(str(self.count)) if is_known else Observation("what?", code="malformed")
        return Step(observation, float(action.operation == "add"), action.operation == "finish", False, info)

    def state(self) -> Mapping[str, JsonValue]:
        return {"count": self.count}

    def snapshot(self) -> object:
        return self.count

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, int)
        self.count = snapshot


def task(name: str = "t1") -> Task:
    return Task(id=name, instruction="go", family="count", environment="counter")


def scripted(texts: Sequence[str | Exception], limits: Limits = NO_LIMITS, agent: Agent | None = None) -> Setting:
    return Setting(
        key="run",
        agent=agent or ToolAgent(LetterRenderer(), limits, "P"),
        agent_version="a@1",
        model=ScriptedModel(texts, letters),
        limits=limits,
        clock=lambda: 0.0,
    )


def play(setting: Setting, world: Callable[[Task], Counter] | None = None) -> Trajectory:
    jobs = [Job(RolloutRequest(task(), number=0, index=0), setting)]
    (trajectory,) = asyncio.run(run_rollouts(jobs, world or (lambda _: Counter())))
    return trajectory


def test_a_rollout_records_turns_tokens_and_state() -> None:
    trajectory = play(scripted(["c.add", "user.finish"]))
    assert trajectory.outcome == "finished"
    assert trajectory.turns == (
        Turn(Observation("go"), "c.add", Action("c", "add"), reward=1.0, state_hash="h0"),
        Turn(Observation("1"), "user.finish", Action("user", "finish"), state_hash="h1"),
    )
    assert trajectory.final_observation == Observation("1")
    assert trajectory.final_state == {"count": 1}
    (row,) = trajectory.rows
    assert row.token_ids == (*letters("P[go]c.add"), END, *letters("[1]user.finish"), END)
    assert [(span.turn, span.start, span.stop) for span in row.spans] == [(0, 5, 11), (1, 14, 26)]
    assert row.logprobs == (0.0,) * 18
    assert row.fork_cause is None
    assert (trajectory.usage.prompt_tokens, trajectory.usage.written_tokens) == (8, 18)
    assert (trajectory.origin, trajectory.model_version, trajectory.temperature) == ("sampled", "scripted", 1.0)


def test_every_call_is_seeded_by_seed_task_number_and_call() -> None:
    setting = scripted(["c.add", "c.add", "user.finish"])
    jobs = [
        Job(RolloutRequest(task(name), number, index), setting)
        for index, name in enumerate("xy")
        for number in (0, 1)
    ]
    trajectories = asyncio.run(run_rollouts(jobs, lambda _: Counter()))
    assert isinstance(setting.model, ScriptedModel)
    seeds = {request.seed for request in setting.model.requests}
    assert len(seeds) == 4 * 3
    assert derived_seed(derived_seed(0, "y", 1), 2) in seeds
    assert {request.order for request in setting.model.requests} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert [trajectory.id for trajectory in trajectories] == [
        trajectory_id("run", name, "a@1", number) for name in "xy" for number in (0, 1)
    ]
    assert len({trajectory.id for trajectory in trajectories}) == 4


def test_unparsed_text_reaches_the_environment_as_malformed() -> None:
    worlds: list[Counter] = []

    def world(_: Task) -> Counter:
        worlds.append(Counter())
        return worlds[-1]

    trajectory = play(scripted(["nonsense", "user.finish"]), world)
    assert worlds[0].actions == [MALFORMED, Action("user", "finish")]
    assert trajectory.turns[0].action is None
    assert trajectory.turns[0].text == "nonsense"
    assert trajectory.turns[0].costs == {"error": 1.0}
    assert trajectory.turns[1].observation == Observation("what?", code="malformed")


@pytest.mark.parametrize(
    ("limits", "outcome", "turns"),
    [
        (Limits(max_turns=3), "step_limit", 3),
        (Limits(max_tokens=20), "token_limit", 2),  # 5 + 6 tokens, 3 + 6 more make 20
        (Limits(max_tokens=13), "token_limit", 1),  # the second prompt alone has 14
        (Limits(max_action_tokens=2, max_turns=2), "step_limit", 2),
    ],
)
def test_limits_name_the_outcome(limits: Limits, outcome: str, turns: int) -> None:
    trajectory = play(scripted(["c.add"], limits))
    assert (trajectory.outcome, len(trajectory.turns)) == (outcome, turns)
    assert all(span.turn < turns for row in trajectory.rows for span in row.spans)
    assert all(len(row.token_ids) <= (limits.max_tokens or 99) for row in trajectory.rows)


@pytest.mark.parametrize(
    ("texts", "outcome", "turns"),
    [
        (["c.lose", "c.lose", "c.lose", "user.finish"], "step_limit", 3),
        (["c.lose", "c.add", "c.lose", "c.lose", "user.finish"], "step_limit", 4),
        (["c.add", "c.add", "c.add", "user.finish"], "finished", 4),  # other results each time
        (["c.lose", "c.lose", "c.find", "user.finish"], "finished", 4),
        (["?", "?", "?", "user.finish"], "finished", 4),  # no calls
    ],
)
def test_a_third_equal_call_with_an_equal_result_ends_the_rollout(
    texts: Sequence[str], outcome: str, turns: int
) -> None:
    trajectory = play(scripted(texts, Limits(max_equal_calls=3)))
    assert (trajectory.outcome, len(trajectory.turns)) == (outcome, turns)


def test_a_truncated_action_is_recorded_but_not_executed() -> None:
    trajectory = play(scripted(["c.add"], Limits(max_action_tokens=2, max_turns=1)))
    assert (trajectory.turns[0].text, trajectory.turns[0].action) == ("c.", None)
    assert trajectory.final_state == {"count": 0}


def test_the_time_limit_is_checked_between_turns() -> None:
    ticks = iter(range(100))
    setting = replace(scripted(["c.add"], Limits(max_seconds=3.0)), clock=lambda: float(next(ticks)))
    trajectory = play(setting)
    # One reading before each turn: time is left at 1 and 2 seconds, none at 3.
    assert (trajectory.outcome, len(trajectory.turns)) == ("time_limit", 2)
    assert trajectory.usage.seconds == 4.0


def test_a_failing_model_ends_its_rollout_only() -> None:
    good, bad = scripted(["user.finish"]), scripted(["c.add", ModelError("gone")])
    jobs = [Job(RolloutRequest(task(name), 0, i), bad if name == "b" else good) for i, name in enumerate("abc")]
    trajectories = asyncio.run(run_rollouts(jobs, lambda _: Counter()))
    assert [trajectory.outcome for trajectory in trajectories] == ["finished", "model_error", "finished"]
    broken = trajectories[1]
    assert broken.error == "ModelError: gone"
    assert (len(broken.turns), broken.final_observation, broken.final_state) == (1, Observation("1"), {"count": 1})


@pytest.mark.parametrize(("breaks_at", "turns"), [("reset", 0), ("step", 1)])
def test_a_failing_environment_is_recorded(breaks_at: str, turns: int) -> None:
    trajectory = play(scripted(["c.break"]), lambda _: Counter(breaks_at=breaks_at))
    assert (trajectory.outcome, trajectory.error) == ("environment_error", "OSError: no disk")
    assert (len(trajectory.turns), trajectory.final_observation.code) == (turns, "environment_error")


def test_at_most_slots_rollouts_run_and_results_keep_the_job_order() -> None:
    alive = peak = 0

    async def slow(instruction: str, turns: Sequence[Turn], observation: Observation) -> str:
        nonlocal alive, peak
        alive, peak = alive + 1, max(peak, alive + 1)
        for _ in range(len(turns) + int(instruction[-1]) % 3):
            await asyncio.sleep(0)
        alive -= 1
        return "user.finish"

    setting = Setting("run", CallableAgent(slow), "a@1", model=None)
    jobs = [Job(RolloutRequest(replace(task(f"t{i}"), instruction=f"go {i}"), 0, i), setting) for i in range(7)]
    finished: list[str] = []
    trajectories = asyncio.run(
        run_rollouts(
            jobs, lambda _: Counter(), slots=3, on_finish=lambda trajectory: finished.append(trajectory.task_id)
        )
    )
    assert [trajectory.task_id for trajectory in trajectories] == [f"t{i}" for i in range(7)]
    assert sorted(finished) == [f"t{i}" for i in range(7)]
    assert finished != sorted(finished)
    assert peak == 3
    with pytest.raises(ValueError, match="slots must be at least 1, got 0"):
        asyncio.run(run_rollouts(jobs, lambda _: Counter(), slots=0))


class Reflecting:
    """Thinks in a separate context before each action, and drops its history in the third turn."""

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        prefix = tuple(letters("A")) if len(turns) != 2 else ()
        thought = await model.generate((*letters("think"), len(turns) + 1), max_tokens=9, stop_ids=(END,))
        written = await model.generate((*prefix, *letters(observation.text)), max_tokens=9, stop_ids=(END,))
        text = "user.finish" if len(turns) == 2 else "c.add"
        assert thought.token_ids and written.token_ids
        return Reply(text, read_call(text))


def test_prompts_that_do_not_extend_an_earlier_row_start_new_rows_with_the_cause() -> None:
    trajectory = play(scripted(["x"], agent=Reflecting()))
    causes = [row.fork_cause for row in trajectory.rows]
    assert causes == [None, *["history_changed"] * 5]
    assert fork_counts([trajectory, trajectory]) == {"history_changed": 10}
    # Each sampled token is in exactly one span of exactly one row.
    assert sum(span.stop - span.start for row in trajectory.rows for span in row.spans) == 6 * 2
    assert [row.spans[0].turn for row in trajectory.rows] == [0, 0, 1, 1, 2, 2]


def test_two_interleaved_conversations_keep_one_row_each() -> None:
    class TwoConversations:
        async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
            for name in "AB":
                history = letters(name)
                for _ in range(len(turns) + 1):
                    history = [*history, *letters("x"), END]
                await model.generate(tuple(history[:-2]), max_tokens=9, stop_ids=(END,))
            return Reply("c.add", Action("c", "add"))

    trajectory = play(scripted(["x"], Limits(max_turns=3), agent=TwoConversations()))
    assert [row.token_ids for row in trajectory.rows] == [
        (*letters("Ax"), END, *letters("x"), END, *letters("x"), END),
        (*letters("Bx"), END, *letters("x"), END, *letters("x"), END),
    ]
    assert [row.fork_cause for row in trajectory.rows] == [None, "history_changed"]
    assert [[span.turn for span in row.spans] for row in trajectory.rows] == [[0, 1, 2], [0, 1, 2]]


def test_a_shortened_history_is_its_fork_cause() -> None:
    class Shortening:
        async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
            await model.generate(tuple(letters("abc"[: 3 - len(turns)])), max_tokens=9, stop_ids=(END,))
            return Reply("c.add", Action("c", "add"))

    trajectory = play(scripted(["x"], Limits(max_turns=2), agent=Shortening()))
    assert [row.fork_cause for row in trajectory.rows] == [None, "history_shortened"]


def test_tokens_of_a_failed_turn_are_kept_but_not_trained() -> None:
    class Breaking:
        async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
            await model.generate((*model.history, 7), max_tokens=9, stop_ids=(END,))
            if turns:
                raise KeyError("lost")
            return Reply("c.add", Action("c", "add"))

    trajectory = play(scripted(["x"], agent=Breaking()))
    (row,) = trajectory.rows
    assert row.token_ids == (7, *letters("x"), END, 7, *letters("x"), END)
    assert [(span.turn, span.start, span.stop) for span in row.spans] == [(0, 1, 3)]
    assert row.logprobs == (0.0, 0.0)
    assert (trajectory.outcome, trajectory.error) == ("model_error", "KeyError: 'lost'")


def test_an_agent_without_its_model_is_an_error() -> None:
    trajectory = play(replace(scripted(["x"]), model=None))
    assert trajectory.outcome == "model_error"
    assert "its rollout has none" in trajectory.error
