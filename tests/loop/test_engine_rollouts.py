"""Rollouts through a remote engine: equal to those in this process, or refused."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from benchmarks.errands import ENVIRONMENT, MODEL
from upturn.config import Limits, SamplingSettings
from upturn.environments.kit import resolve_kit
from upturn.errors import TrainingError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.engine_runtime import EngineHost, EngineRuntime
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutSpec
from upturn.models import load_local
from upturn.models.engine import weights_hash
from upturn.models.remote import RemoteEngine, RemoteSettings
from upturn.records import AgentVersion, Task
from upturn.training import policy_rows
from upturn.training.advantage import ScoredGroup
from upturn.training.distributed.weights import restore_weights, weight_tensors

KIT = resolve_kit(ENVIRONMENT)
LIMITS = Limits(max_turns=4, max_tokens=200, max_action_tokens=24)
VERSION = AgentVersion("nano", "1", "local_model", model=MODEL)
TASKS: list[Task] = list(islice(KIT.tasks(seed=3, split="train", families=["mail_file", "cell_ask"]), 3))
PRACTICE = RolloutSpec("run", 5, 3)


class NoSink:
    """Stores nothing."""

    def append(self, run: str, iteration: int, finished: Sequence[Any]) -> None:
        pass


class Served:
    """Nano behind an engine server that takes whole models."""

    def __init__(self, server: ModuleType) -> None:
        self.worker = PolicyWorker(AgentRuntime(KIT, LIMITS), VERSION)
        self.engine = server.Engine(self.worker.engine, "start", load=self.load)

    def load(self, name: str, folder: str) -> None:
        restore_weights(self.worker.model, weight_tensors(load_local(folder).model))
        self.worker.engine.refresh()


@pytest.fixture
def remote(
    engine_server: ModuleType, tmp_path: Path
) -> Iterator[Callable[[], tuple[Any, EngineRuntime, PolicyWorker]]]:
    """The engine, a runtime that samples from it, and a worker with weights that differ from the engine's."""
    served = Served(engine_server)
    with engine_server.serving(served.engine):

        def start() -> tuple[Any, EngineRuntime, PolicyWorker]:
            client = RemoteEngine(RemoteSettings(served.engine.url, "sglang", max_length=200, retries=0), "start")
            runtime = EngineRuntime(KIT, LIMITS, EngineHost(client, tmp_path))
            worker = PolicyWorker(runtime, VERSION)
            with torch.no_grad():
                next(iter(worker.model.parameters())).mul_(1.01)
            return served.engine, runtime, worker

        yield start


def tokens(groups: Sequence[ScoredGroup]) -> list[list[tuple[int, ...]]]:
    return [[row.token_ids for row in member.trajectory.rows] for group in groups for member in group.members]


def test_rollouts_through_an_engine_have_the_worker_s_weights(remote: Callable[[], Any]) -> None:
    """SGLang's seeds have 31 bits, Upturn's 63, so tokens differ, but they come from the same weights."""
    _, runtime, worker = remote()
    groups = worker.sample_groups(TASKS, 2, PRACTICE, NoSink())
    trajectories = [member.trajectory for group in groups for member in group.members]
    assert len(trajectories) == 9 and {trajectory.error for trajectory in trajectories} == {""}
    assert {trajectory.model_version for trajectory in trajectories} == {weights_hash(worker.model)}
    assert all(member.turn_rewards is not None for group in groups for member in group.members)
    assert runtime.rescored is not None and runtime.rescored.largest_gap < 1e-4
    assert tokens(worker.sample_groups(TASKS, 2, PRACTICE, NoSink())) == tokens(groups), (
        "draws depend on seeds, not on time"
    )


def test_an_engine_that_returns_tokens_it_did_not_sample_is_refused(
    remote: Callable[[], Any],
) -> None:
    """The format is valid, so that only rescoring detects it: every answer's first token is changed."""

    def other(_: Any, answer: dict[str, Any]) -> dict[str, Any]:
        answer["output_ids"][0] = (answer["output_ids"][0] + 7) % 256
        answer["meta_info"]["output_token_logprobs"][0][1] = answer["output_ids"][0]
        return answer

    engine, _, worker = remote()
    engine.faults.append(other)
    with pytest.raises(TrainingError, match="the engine returns other tokens than it sampled"):
        worker.sample_groups(TASKS, 2, PRACTICE, NoSink())


def test_greedy_evaluations_are_not_rescored(remote: Callable[[], Any]) -> None:
    _, runtime, worker = remote()
    worker.serve_as(worker.version)
    (trajectory,) = runtime.rollout([(worker.version, TASKS[0], 0)], Purpose("heldout", 1, temperature=0.0))
    assert trajectory.error == "" and runtime.rescored is None


def test_rollouts_at_another_temperature_are_rescored_at_it_and_can_be_trained_on(
    remote: Callable[[], Any],
) -> None:
    _, runtime, worker = remote()
    groups = worker.sample_groups(TASKS, 2, replace(PRACTICE, temperature=0.7), NoSink())
    assert runtime.rescored is not None and runtime.rescored.largest_gap < 1e-4
    trajectory = groups[0].members[0].trajectory
    assert trajectory.rows[0].logprobs == ()  # SGLang returns those at its own temperature
    (row,) = policy_rows(trajectory, [1.0] * len(trajectory.turns))
    assert row.temperature == 0.7 and row.old_logprobs is not None


def test_options_that_an_engine_s_logprobs_cannot_verify_are_refused(remote: Callable[[], Any]) -> None:
    _, _, worker = remote()
    with pytest.raises(TrainingError, match=r"sampled with \{'top_p': 0\.9\}.*weights cannot verify"):
        worker.sample_groups(TASKS, 2, replace(PRACTICE, sampling=SamplingSettings(top_p=0.9)), NoSink())
