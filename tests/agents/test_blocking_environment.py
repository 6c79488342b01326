"""Blocking environments are called in one thread per rollout, while the engine decodes for the others."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import cast

import pytest
import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from upturn.agents import Job, RolloutRequest, Setting, ToolAgent, branch_points, run_rollouts
from upturn.config import Limits
from upturn.environments.environment import Environment, Info, Step
from upturn.errors import WorldError
from upturn.models import Generation, GenerationRequest, Model, ParsedOutput
from upturn.models.engine import LocalEngine
from upturn.records import Action, JsonValue, Observation, Task, Trajectory

VOCABULARY = 61
SECONDS = 10.0
"""Timeout of a wait, after which the test fails."""
Wait = Callable[["Ledger", str], None]
"""Called by the environment in each of its calls: ``wait(environment, call)``."""


class Ledger:
    """A sum in an SQLite database, which only the thread that opened it may use."""

    blocks = True

    def __init__(self, wait: Wait | None = None) -> None:
        self.task = Task("", "", "", "")
        self.wait = wait
        self.steps = 0
        self.thread = 0

    def reset(self, task: Task) -> tuple[Observation, Info]:
        self.task, self.thread = task, threading.get_ident()
        self.table = sqlite3.connect(":memory:")
        self.table.execute("create table entries (amount integer)")
        self._wait("reset")
        return Observation(task.instruction), self._info()

    def step(self, action: Action) -> Step:
        self.steps += 1
        self._wait("step")
        self.table.execute("insert into entries values (?)", (len(action.operation),))
        return Step(Observation(str(self._sum())), float(self._sum()), action.target == "end", False, self._info())

    def state(self) -> Mapping[str, JsonValue]:
        self._wait("state")
        return {"sum": self._sum()}

    def snapshot(self) -> object:
        return self._sum()

    def restore(self, snapshot: object) -> None:
        self._wait("restore")
        self.table.execute("insert into entries values (?)", (snapshot,))

    def _wait(self, call: str) -> None:
        if self.wait is not None:
            self.wait(self, call)

    def _sum(self) -> int:
        (amount,) = self.table.execute("select coalesce(sum(amount), 0) from entries").fetchone()
        return int(amount)

    def _info(self) -> Info:
        return Info({}, {}, state_hash=str(self._sum()))


class QuickLedger(Ledger):
    """The same, called on the event loop."""

    blocks = False


class Renderer:
    """The last token is the length of an action's operation; an action ends only at its maximum length."""

    stop_ids = ()

    def open(self, observation: Observation, prompt: str) -> tuple[int, ...]:
        return tuple(ord(letter) % VOCABULARY for letter in prompt + observation.text)

    def extend(self, observation: Observation) -> tuple[int, ...]:
        return self.open(observation, "")

    def write(self, action: Action) -> tuple[int, ...]:
        raise NotImplementedError

    def read(self, token_ids: Sequence[int]) -> ParsedOutput:
        text = " ".join(map(str, token_ids))
        return ParsedOutput(text, Action("ledger", "x" * token_ids[-1]))


class Echo:
    """A deterministic model that writes the call's seed without waiting."""

    def __init__(self) -> None:
        self.released: list[str] = []

    async def generate(self, request: GenerationRequest) -> Generation:
        ids = tuple((request.seed >> shift) % VOCABULARY for shift in range(4))
        return Generation(ids, (-1.0,) * 4, "length", "echo")

    def release(self, session: str) -> None:
        self.released.append(session)


@cache
def weights() -> PreTrainedModel:
    torch.manual_seed(1)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    model: PreTrainedModel = Qwen2ForCausalLM(config)
    return model.requires_grad_(False)


def engine() -> LocalEngine:
    return LocalEngine(weights(), slots=8, max_length=200)


def jobs(count: int, model: Model, *, turns: int = 4, tokens: int = 4) -> list[Job]:
    limits = Limits(max_turns=turns, max_action_tokens=tokens)
    setting = Setting("run", ToolAgent(Renderer(), limits, "P"), "a@1", model, limits, clock=lambda: 0.0)
    tasks = [Task(f"t{index}", f"add {index}", "ledger", "ledger") for index in range(count)]
    return [Job(RolloutRequest(task, 0, index), setting) for index, task in enumerate(tasks)]


def play(
    count: int, model: Model, world: Callable[[Task], Environment], *, slots: int = 8, **sizes: int
) -> list[Trajectory]:
    return asyncio.run(run_rollouts(jobs(count, model, **sizes), world, slots=slots))


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "upturn-environment"]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    for thread in threads():
        thread.join(SECONDS)
    assert threads() == []


def delay(ledger: Ledger, first: int) -> float:
    """Milliseconds, which differ by task and step, in an order that depends on ``first``."""
    return (int(ledger.task.id[1:]) * first + ledger.steps * 3) % 7


@pytest.mark.parametrize("first", [0, 1, 5])
def test_records_and_their_order_do_not_depend_on_environment_latency(first: int) -> None:
    def wait(ledger: Ledger, _: str) -> None:
        time.sleep(delay(ledger, first) / 1000)

    expected = play(6, Echo(), lambda _: QuickLedger())
    assert play(6, Echo(), lambda _: Ledger(wait)) == expected
    assert [trajectory.task_id for trajectory in expected] == [f"t{index}" for index in range(6)]
    assert {len(trajectory.turns) for trajectory in expected} == {4}


@pytest.mark.parametrize("first", [0, 1, 5])
def test_environment_latency_changes_no_tokens_and_logprobs_only_by_rounding(first: int) -> None:
    def wait(ledger: Ledger, _: str) -> None:
        time.sleep(delay(ledger, first) / 1000)

    direct = play(6, engine(), lambda _: QuickLedger())
    threaded = play(6, engine(), lambda _: Ledger(wait))
    for actual, expected in zip(threaded, direct, strict=True):
        for row, expected_row in zip(actual.rows, expected.rows, strict=True):
            assert row.logprobs == pytest.approx(expected_row.logprobs, abs=1e-5)
        assert replace(actual, rows=()) == replace(expected, rows=())
        assert [row.token_ids for row in actual.rows] == [row.token_ids for row in expected.rows]


def test_the_engine_keeps_decoding_while_an_environment_waits() -> None:
    local = engine()
    passes_in_step: list[int] = []

    def wait(ledger: Ledger, call: str) -> None:
        if ledger.task.id != "t0" or call != "step" or ledger.steps > 1:
            return
        before, deadline = local.counters.forwards, time.monotonic() + SECONDS
        while local.counters.forwards < before + 20 and time.monotonic() < deadline:
            time.sleep(0.001)
        passes_in_step.append(local.counters.forwards - before)

    slow, other = play(2, local, lambda _: Ledger(wait), turns=5, tokens=8)
    (passes,) = passes_in_step  # the other rollout writes 4 actions of 8 tokens after its first
    assert passes >= 20
    assert len(slow.turns) == len(other.turns) == 5


def test_environments_of_all_live_rollouts_wait_concurrently() -> None:
    meeting = threading.Barrier(6, timeout=SECONDS)  # released when six are in the same call
    trajectories = play(6, engine(), lambda _: Ledger(lambda *_: cast(None, meeting.wait())))
    assert [trajectory.error for trajectory in trajectories] == [""] * 6
    assert [len(trajectory.turns) for trajectory in trajectories] == [4] * 6


def test_each_rollout_has_one_thread_and_at_most_one_call() -> None:
    lock = threading.Lock()
    worlds: list[Ledger] = []
    calling, peak = 0, 0

    def wait(*_: object) -> None:
        nonlocal calling, peak
        with lock:
            calling += 1
            peak = max(peak, calling)
        time.sleep(0.002)
        with lock:
            calling -= 1

    def world(_: Task) -> Ledger:
        worlds.append(Ledger(wait))
        return worlds[-1]

    # SQLite itself refuses a second thread for one environment.
    assert {trajectory.error for trajectory in play(6, Echo(), world, slots=2)} == {""}
    assert len(worlds) == 6
    assert threading.get_ident() not in {ledger.thread for ledger in worlds}
    assert 1 <= peak <= 2


def raising(at: str, error: BaseException) -> Wait:
    def wait(ledger: Ledger, call: str) -> None:
        if call == at and ledger.task.id == "t1":
            raise error

    return wait


@pytest.mark.parametrize("at", ["reset", "step", "state"])
@pytest.mark.parametrize(
    "error", [OSError("gone"), WorldError("odd"), StopIteration(), TimeoutError("late"), SystemExit(3)], ids=repr
)
def test_errors_of_a_blocking_environment_are_recorded_as_without_a_thread(at: str, error: BaseException) -> None:
    trajectories = play(3, Echo(), lambda _: Ledger(raising(at, error)))
    assert trajectories == play(3, Echo(), lambda _: QuickLedger(raising(at, error)))
    assert [trajectory.outcome for trajectory in trajectories] == ["step_limit", "environment_error", "step_limit"]


def test_a_blocking_environment_continues_from_a_branch_point() -> None:
    (source,) = play(1, Echo(), lambda _: Ledger())
    (job,) = jobs(1, Echo())
    states = branch_points(source, job.request.task, Ledger())

    def continued(kind: type[Ledger]) -> list[Trajectory]:
        continuations = [Job(replace(job.request, branch_point=state), job.setting) for state in states]
        return asyncio.run(run_rollouts(continuations, lambda _: kind()))

    assert continued(Ledger) == continued(QuickLedger)
    assert len(continued(Ledger)) == 4
    assert {trajectory.error for trajectory in continued(Ledger)} == {""}


def test_the_time_limit_never_interrupts_an_environment() -> None:
    def limited(kind: type[Ledger]) -> Trajectory:
        ticks = iter(range(100))
        (job,) = jobs(1, Echo())
        setting = replace(job.setting, limits=Limits(max_seconds=3.0), clock=lambda: float(next(ticks)))
        (trajectory,) = asyncio.run(run_rollouts([Job(job.request, setting)], lambda _: kind()))
        return trajectory

    assert limited(Ledger) == limited(QuickLedger)
    assert (limited(Ledger).outcome, len(limited(Ledger).turns)) == ("time_limit", 2)


def test_a_cancelled_rollout_releases_its_session_and_ends_its_thread() -> None:
    entered, gate, model = threading.Event(), threading.Event(), Echo()

    def wait(_: Ledger, call: str) -> None:
        if call == "step":
            entered.set()
            assert gate.wait(SECONDS)

    async def cancel() -> None:
        rollouts = asyncio.create_task(run_rollouts(jobs(1, model), lambda _: Ledger(wait)))
        while not entered.is_set():
            await asyncio.sleep(0.001)
        rollouts.cancel()
        with pytest.raises(asyncio.CancelledError):
            await rollouts

    asyncio.run(cancel())
    assert len(model.released) == 1
    gate.set()
