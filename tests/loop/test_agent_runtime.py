"""Rollouts of the agent runtime come in the order of the jobs and depend on their purpose only."""

import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from types import ModuleType

import pytest
import torch

from benchmarks.errands import MODEL
from benchmarks.errands.kit import ErrandsKit
from upturn.agents import build, trajectory_id
from upturn.agents.context import Budget, parameters_of
from upturn.config import AgentConfig, Limits
from upturn.errors import ConfigError, ModelError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.run.context import version_of
from upturn.records import AgentVersion, Task, TokenRow

NANO = AgentVersion("nano", "base", "local_model", model=MODEL, parameters={"temperature": 1.0})
LIMITS = Limits(max_turns=2, max_tokens=120, max_action_tokens=16)


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def version(name: str) -> AgentVersion:
    return AgentVersion(name, "base", "callable", model=f"toy_desk:{name}")


def sampled(runtime: AgentRuntime, tasks: list[Task], purpose: Purpose) -> list[tuple[TokenRow, ...]]:
    return [trajectory.rows for trajectory in runtime.rollout([(NANO, task, 0) for task in tasks], purpose)]


def test_rollouts_come_in_the_order_of_the_jobs_with_ids_of_their_purpose(desk: ModuleType) -> None:
    kit = desk.kit()
    runtime = AgentRuntime(kit, Limits(max_turns=2))
    tasks = list(islice(kit.tasks(seed=0, split="train", families=["sums", "products"]), 6))
    jobs = [(version(name), task, number) for task in tasks for number, name in enumerate(("solver", "adder"))]
    trajectories = runtime.rollout(jobs, Purpose("run/heldout", 0))
    for (agent, task, number), trajectory in zip(jobs, trajectories, strict=True):
        assert (trajectory.task_id, trajectory.agent_version) == (task.id, agent.id)
        assert trajectory.id == trajectory_id("run/heldout", task.id, agent.id, number)
    again = runtime.rollout(jobs, Purpose("run/other", 0))
    assert len({trajectory.id for trajectory in (*trajectories, *again)}) == 2 * len(jobs)


def test_unloaded_versions_are_built_again(desk: ModuleType) -> None:
    kit = desk.kit()
    runtime = AgentRuntime(kit, Limits(max_turns=2))
    (task,) = islice(kit.tasks(seed=0, split="train", families=["sums"]), 1)
    before = runtime.rollout([(version("solver"), task, 0), (version("refuser"), task, 0)], Purpose("p", 0))
    runtime.keep_only([version("refuser")])
    after = runtime.rollout([(version("solver"), task, 0), (version("refuser"), task, 0)], Purpose("p", 0))
    assert [trajectory.final_state for trajectory in after] == [trajectory.final_state for trajectory in before]


def test_version_that_cannot_be_built_is_named(desk: ModuleType) -> None:
    runtime = AgentRuntime(desk.kit(), Limits(max_turns=2))
    (task,) = islice(runtime.kit.tasks(seed=0, split="train", families=["sums"]), 1)
    with pytest.raises(ConfigError, match="no_such_function"):
        runtime.rollout([(version("no_such_function"), task, 0)], Purpose("p", 0))


def test_a_context_budget_above_the_maximum_context_is_refused() -> None:
    runtime = AgentRuntime(ErrandsKit(), Limits(max_turns=2))  # the default maximum context is 512
    budget = parameters_of(Budget(513, 8, 100, 48, low_mark=0.6))
    (task,) = islice(runtime.kit.tasks(seed=0, split="train", families=["mail_file"]), 1)
    with pytest.raises(
        ModelError, match="context_tokens = 513, but the maximum context is 512; lower it, or raise"
    ):
        runtime.rollout([(replace(NANO, parameters=budget), task, 0)], Purpose("p", 0))


def test_draws_depend_on_the_seed_and_not_on_earlier_rollouts(one_thread: None) -> None:
    kit = ErrandsKit()
    tasks = list(islice(kit.tasks(seed=3, split="train", families=["mail_file", "event_add"]), 8))
    runtime = AgentRuntime(kit, LIMITS)
    # At its serving temperature the model gives the same answers to these tasks for every draw.
    first = sampled(runtime, tasks, Purpose("p", 1, 1.8))
    other = sampled(runtime, tasks, Purpose("p", 2, 1.8))
    assert other != first
    assert sampled(runtime, tasks, Purpose("p", 1, 1.8)) == first
    fresh = AgentRuntime(kit, LIMITS)  # as in a resumed process: to the last digit of every log-prob
    assert sampled(fresh, tasks, Purpose("p", 2, 1.8)) == other
    assert sampled(fresh, tasks, Purpose("another name", 1, 1.8)) == first


def test_purpose_overrides_the_serving_temperature(one_thread: None) -> None:
    kit = ErrandsKit()
    tasks = list(islice(kit.tasks(seed=3, split="train", families=["mail_file"]), 4))
    runtime = AgentRuntime(kit, LIMITS)
    greedy = [sampled(runtime, tasks, Purpose("p", seed, temperature=0.0)) for seed in (1, 2)]
    tokens = [[row.token_ids for rows in sample for row in rows] for sample in greedy]
    assert tokens[0] == tokens[1]  # for every seed


def test_an_endpoint_that_does_not_answer_is_noted_within_seconds(
    desk: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own time-out and number of tries come from the configuration."""
    monkeypatch.setattr("upturn.loop.agent_runtime.TROUBLE_SECONDS", 0.1)
    notes: list[str] = []
    kit = desk.kit()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        agent = AgentConfig("far", "endpoint", model="m", url=url, timeout_seconds=0.8, retries=0)
        runtime = AgentRuntime(kit, Limits(max_turns=2), note=notes.append)
        (task,) = islice(kit.tasks(seed=0, split="train", families=["sums"]), 1)
        (trajectory,) = runtime.rollout([(version_of(agent), task, 0)], Purpose("p", 0))
    assert trajectory.outcome == "model_error"
    assert "failed 1 times, at last with no whole answer within 0.8 s" in trajectory.error
    assert notes
    start = re.escape(f"trouble: agent 'far@base': {url}/chat/completions has not answered for ")
    assert re.match(start + r"\d+ s, 1 calls", notes[0])
    assert len(notes) <= 5, "ever more rarely: after 0.1 s, then 0.1, 0.2, 0.4, 0.8 s later"


def test_time_outs_are_part_of_a_version_only_if_they_are_set() -> None:
    agent = AgentConfig("far", "endpoint", model="m", url="http://127.0.0.1:1")
    assert version_of(agent).parameters == {"temperature": 1.0}
    limited = version_of(replace(agent, timeout_seconds=5.0, retries=0))
    assert limited.parameters == {"temperature": 1.0, "timeout_seconds": 5.0, "retries": 0}
    with pytest.raises(ConfigError) as caught:
        build(replace(limited, parameters={"timeout_seconds": 0, "retries": -1}), limits=LIMITS)
    assert caught.value.problems == (
        "agent 'far@base': timeout_seconds must be above 0, got 0",
        "agent 'far@base': retries must be 0 or more, got -1",
    )
