"""Practice through an engine elsewhere: what a runtime in this process would give, and what is refused."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from benchmarks.errands import ENVIRONMENT, MODEL
from upturn.config import Limits
from upturn.environments.kit import resolve_kit
from upturn.errors import ModelError, TrainingError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutSpec
from upturn.loop.rollouts.remote_rollouts import RemoteRuntime
from upturn.models.engine import weights_hash
from upturn.models.remote import RemoteEngine, RemoteSettings
from upturn.records import AgentVersion, Task
from upturn.training.advantage import ScoredGroup
from upturn.training.distributed.weights import restore_weights, weight_tensors
from upturn.training.runs.model_folder import load_version

KIT = resolve_kit(ENVIRONMENT)
LIMITS = Limits(max_turns=4, max_tokens=200, max_action_tokens=24)
VERSION = AgentVersion("nano", "1", "local_model", model=MODEL)
TASKS: list[Task] = list(islice(KIT.tasks(seed=3, split="train", families=["mail_file", "cell_ask"]), 3))
PRACTICE = RolloutSpec("run", 5, 3)


class NoSink:
    """Keeps nothing."""

    def append(self, run: str, iteration: int, finished: Sequence[Any]) -> None:
        pass


class Served:
    """Nano behind an engine server that takes whole models."""

    def __init__(self, server: ModuleType) -> None:
        self.worker = PolicyWorker(AgentRuntime(KIT, LIMITS), VERSION)
        self.engine = server.Engine(self.worker.engine, "start", load=self.load)

    def load(self, name: str, folder: str) -> None:
        restore_weights(self.worker.model, weight_tensors(load_version(Path(folder))))
        self.worker.engine.refresh()


@pytest.fixture
def practising(
    engine_server: ModuleType, tmp_path: Path
) -> Iterator[Callable[[], tuple[Any, RemoteRuntime, PolicyWorker]]]:
    """The engine, the runtime that samples from it, and a worker with other weights than the engine has."""
    served = Served(engine_server)
    with engine_server.serving(served.engine):

        def begin() -> tuple[Any, RemoteRuntime, PolicyWorker]:
            remote = RemoteEngine(RemoteSettings(served.engine.url, "sglang", max_length=200, retries=0), "start")
            runtime = RemoteRuntime(KIT, LIMITS, remote, tmp_path)
            worker = PolicyWorker(runtime, VERSION)
            with torch.no_grad():
                next(iter(worker.model.parameters())).mul_(1.01)
            return served.engine, runtime, worker

        yield begin


def tokens(groups: Sequence[ScoredGroup]) -> list[list[tuple[int, ...]]]:
    return [[row.token_ids for row in member.trajectory.rows] for group in groups for member in group.members]


def test_practice_through_an_engine_elsewhere_is_practice_here(practising: Callable[[], Any]) -> None:
    """SGLang's seeds have 31 bits, ours 63: so tokens differ from those here, but are those of the same weights."""
    _, runtime, worker = practising()
    runtime.follow(worker.model)
    groups = worker.sample_groups(TASKS, 2, PRACTICE, NoSink())
    found = [member.trajectory for group in groups for member in group.members]
    assert len(found) == 9 and {each.error for each in found} == {""}
    assert {each.model_version for each in found} == {weights_hash(worker.model)}
    assert all(member.turn_rewards is not None for group in groups for member in group.members)
    assert runtime.rescored is not None and runtime.rescored.largest_gap < 1e-4
    assert tokens(worker.sample_groups(TASKS, 2, PRACTICE, NoSink())) == tokens(groups), (
        "seeds decide, not the moment"
    )


def test_an_engine_that_returns_other_ids_than_it_sampled_is_refused_before_training(
    practising: Callable[[], Any],
) -> None:
    """In good form, so that only the weights can tell: every answer's first token is another one."""

    def other(_: Any, answer: dict[str, Any]) -> dict[str, Any]:
        answer["output_ids"][0] = (answer["output_ids"][0] + 7) % 256
        answer["meta_info"]["output_token_logprobs"][0][1] = answer["output_ids"][0]
        return answer

    engine, runtime, worker = practising()
    runtime.follow(worker.model)
    engine.faults.append(other)
    with pytest.raises(TrainingError, match="the engine returns other tokens than it sampled"):
        worker.sample_groups(TASKS, 2, PRACTICE, NoSink())


def test_nothing_is_scored_again_at_other_temperatures_and_nothing_sampled_without_weights(
    practising: Callable[[], Any],
) -> None:
    _, runtime, worker = practising()
    with pytest.raises(ModelError, match=r"call follow\(\) first"):
        worker.sample_groups(TASKS, 2, PRACTICE, NoSink())
    runtime.follow(worker.model)
    (found,) = runtime.rollout([(worker.version, TASKS[0], 0)], Purpose("heldout", 1, temperature=0.0))
    assert "at temperature 0.0 they are not the model's" in found.error, "SGLang scores at its own temperature"
    assert runtime.rescored is None
