"""Rollouts by workers give the same as one process, also when workers are lost. Uses Ray if installed."""

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2
import pytest
import torch

from benchmarks.errands import ENVIRONMENT, MODEL
from upturn.agents import Attempt, Job, run_rollouts
from upturn.agents.cluster import LostWorker, WorkItem
from upturn.agents.ray_workers import RaySettings, RayWorkerPool
from upturn.config import AdapterSettings, Limits
from upturn.environments import Environment
from upturn.environments.kit import resolve_kit
from upturn.errors import ClusterError, ConfigError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutSpec
from upturn.loop.rollouts.ray_rollouts import PolicyWorkerFactory, PolicyWorkerRuntime, RayRuntime
from upturn.models.engine import weights_hash
from upturn.models.shipped import load_local
from upturn.records import AgentVersion, Task, Trajectory
from upturn.training.advantage import ScoredGroup
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.data.async_rollouts import AheadCollect
from upturn.training.distributed.weights import restore_weights
from upturn.training.runs import RunOptions

LIMITS = Limits(max_turns=6, max_tokens=256, max_action_tokens=24)
VERSION = AgentVersion("nano", "1", "local_model", model=MODEL)
PROGRAM = AgentVersion("asker", "1", "program", model=MODEL, parameters={"import_path": f"{__name__}:ask"})
PURPOSE = Purpose("run/0", 11, temperature=1.0)
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="the extra ray is not installed")


async def ask(attempt: Attempt) -> None:
    """A program: acts in the environment until it is over."""
    messages: list[Any] = [{"role": "user", "content": attempt.task}]
    is_over = False
    async with httpx2.AsyncClient(headers={"x-api-key": attempt.api_key}) as client:
        while not is_over:
            body = {"model": "m", "messages": messages, "tools": attempt.tools}
            answer = (await client.post(f"{attempt.base_url}/chat/completions", json=body)).json()
            message = answer["choices"][0]["message"]
            calls = message.get("tool_calls")
            step = calls[0]["function"] if calls else {"text": message["content"]}
            seen = (await client.post(f"{attempt.environment_url}/step", json=step)).json()
            role = {"role": "tool", "tool_call_id": calls[0]["id"]} if calls else {"role": "user"}
            messages += [message, role | {"content": seen["observation"]}]
            is_over = seen["is_over"]


def tasks(count: int) -> list[Task]:
    kit = resolve_kit(ENVIRONMENT)
    return list(islice(kit.tasks(seed=3, split="train", families=["mail_file", "cell_ask", "unread_count"]), count))


def jobs(count: int = 4, group_size: int = 3) -> list[tuple[AgentVersion, Task, int]]:
    return [(VERSION, task, number) for task in tasks(count) for number in range(group_size)]


def assert_same(found: Sequence[Trajectory], expected: Sequence[Trajectory]) -> None:
    """Log-probs within 1e-4, all else equal."""
    for one, other in zip(found, expected, strict=True):
        for row, twin in zip(one.rows, other.rows, strict=True):
            assert row.logprobs == pytest.approx(twin.logprobs, abs=1e-4)
        bare = [
            replace(
                item,
                rows=tuple(replace(row, logprobs=()) for row in item.rows),
                usage=replace(item.usage, seconds=0.0),
            )
            for item in (one, other)
        ]
        assert bare[0] == bare[1]


class InProcess:
    """A pool whose workers are runtimes of this process that run one after another."""

    def __init__(self, factory: PolicyWorkerFactory, size: int = 2) -> None:
        self.runtimes = [factory() for _ in range(size)]
        self.size = size
        self.loaded: list[str] = []

    def load_weights(self, folder: str, version: str) -> None:
        self.loaded.append(version)
        assert [runtime.load_weights(folder, version) for runtime in self.runtimes] == [version] * self.size

    def run(self, parts: Sequence[Sequence[WorkItem]]) -> Iterator[Trajectory | LostWorker]:
        for runtime, part in zip(self.runtimes, parts, strict=False):
            runtime.prepare(part)
            yield from asyncio.run(
                run_rollouts([Job(work.request, runtime.setting(work)) for work in part], runtime.environment)
            )


class NoSink:
    """Stores nothing."""

    def append(self, run: str, iteration: int, finished: Sequence[Any]) -> None:
        pass


def follow(runtime: RayRuntime, worker: PolicyWorker) -> None:
    """Makes ``VERSION`` sample with the weights of another runtime's worker."""
    local = load_local(MODEL)._replace(model=worker.model)
    runtime.adopt(VERSION, runtime.engine_for(local), worker.renderer)


@pytest.fixture
def flushing() -> Iterator[None]:
    """Restores the torch settings that a worker's runtime changes."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    torch.set_flush_denormal(False)


@pytest.mark.parametrize("adapter", [None, AdapterSettings(4)])
def test_workers_sample_what_one_process_samples_with_the_present_weights(
    tmp_path: Path, flushing: None, adapter: AdapterSettings | None
) -> None:
    """Workers have whole models, also where an adapter is trained.

    Tokens are equal with probability above 1 − 1e-3: a rounding of 1e-6 decides on few of some 1,000 tokens.
    """
    kit = resolve_kit(ENVIRONMENT)
    workers = InProcess(PolicyWorkerFactory(ENVIRONMENT, LIMITS, VERSION))
    runtime = RayRuntime(kit, LIMITS, workers, tmp_path)
    worker = PolicyWorker(AgentRuntime(kit, LIMITS), VERSION, adapter)
    trained = [parameter for parameter in worker.model.parameters() if parameter.requires_grad]
    with torch.no_grad():
        trained[1].add_(0.01)  # other weights than the workers have; an adapter's second matrix is its first B
    worker.serve_as(VERSION)
    follow(runtime, worker)
    found, expected = runtime.rollout(jobs(), PURPOSE), worker.runtime.rollout(jobs(), PURPOSE)
    assert_same(found, expected)
    assert {item.model_version for item in found} == {weights_hash(worker.model)} == set(workers.loaded)
    assert runtime.lost_rollouts == 0 and runtime.lost_workers == []


def test_a_worker_configures_torch_in_the_thread_of_its_rollouts() -> None:
    """A worker is created in one thread and runs in another; torch's settings belong to the thread."""
    runtime = PolicyWorkerFactory(ENVIRONMENT, LIMITS, VERSION, threads=2)()
    settings = list[object]()

    def run() -> None:
        denormal = torch.tensor(1e-40)
        before = float(denormal * 1.0)
        runtime.prepare([])
        settings.extend([before > 0, float(denormal * 1.0), torch.get_num_threads()])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert settings == [True, 0.0, 2]


@pytest.mark.parametrize("version", [VERSION, PROGRAM], ids=["model", "program"])
def test_groups_sampled_by_workers_are_those_of_one_process(
    tmp_path: Path, flushing: None, version: AgentVersion
) -> None:
    kit = resolve_kit(ENVIRONMENT)
    runtime = RayRuntime(kit, LIMITS, InProcess(PolicyWorkerFactory(ENVIRONMENT, LIMITS, version)), tmp_path)
    worker = PolicyWorker(runtime, version)
    local = PolicyWorker(AgentRuntime(kit, LIMITS), version)
    rollouts = RolloutSpec("run", 5, 3)
    found, expected = (item.sample_groups(tasks(3), 2, rollouts, NoSink()) for item in (worker, local))
    assert [[member.turn_rewards for member in group.members] for group in found] == [
        [member.turn_rewards for member in group.members] for group in expected
    ]
    assert_same(
        [member.trajectory for group in found for member in group.members],
        [member.trajectory for group in expected for member in group.members],
    )


def test_sampling_ahead_with_workers_uses_the_promised_weights(tmp_path: Path, flushing: None) -> None:
    """Two iterations with staleness 1 come from the weights before training, the third from those after one."""
    kit = resolve_kit(ENVIRONMENT)
    runtime = RayRuntime(kit, LIMITS, InProcess(PolicyWorkerFactory(ENVIRONMENT, LIMITS, VERSION), 1), tmp_path)
    ahead, model = PolicyWorker(runtime, VERSION), load_local(MODEL).model

    def sample(iteration: int, weights: Mapping[str, torch.Tensor]) -> list[ScoredGroup]:
        restore_weights(ahead.model, weights)
        return ahead.sample_groups(tasks(1), iteration, RolloutSpec("run", 5, 2), NoSink())

    versions = []
    with AheadCollect(model, sample, staleness=1, iterations=3) as collect:
        for iteration in range(3):
            groups = collect(iteration)
            versions.append({member.trajectory.model_version for group in groups for member in group.members})
            with torch.no_grad():
                next(iter(model.parameters())).mul_(1.01)
    assert versions[0] == versions[1] != versions[2]


def test_workers_sample_one_version_at_a_time(tmp_path: Path) -> None:
    class NoWorkers:
        size = 1

        def load_weights(self, folder: str, version: str) -> None: ...

        def run(self, parts: Sequence[Sequence[WorkItem]]) -> Iterator[Trajectory | LostWorker]:
            yield from ()

    runtime = RayRuntime(resolve_kit(ENVIRONMENT), LIMITS, NoWorkers(), tmp_path)
    ((version, task, number),) = jobs(1, 1)
    with pytest.raises(ClusterError, match=r"got \['nano@1', 'nano@2'\]"):
        runtime.rollout([(version, task, number), (replace(version, version="2"), task, number)], PURPOSE)


def test_invalid_settings_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        RaySettings(0, None, -1.0, -1.0, 0, 0.0, float("nan"))
    assert len(caught.value.problems) == 6


@pytest.mark.skipif(find_spec("ray") is not None, reason="ray is installed")
def test_without_ray_the_remedy_is_named() -> None:
    with pytest.raises(ClusterError, match=r"not installed: pip install 'upturn\[ray\]'"):
        RayWorkerPool(PolicyWorkerFactory(ENVIRONMENT, LIMITS, VERSION), RaySettings())


@needs_ray
def test_a_missing_cluster_is_reported_within_seconds() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    started = time.monotonic()
    with pytest.raises(ClusterError, match=f"there is no Ray cluster at '{address}'.*ray start --head"):
        RayWorkerPool(PolicyWorkerFactory(ENVIRONMENT, LIMITS, VERSION), RaySettings(address=address))
    with pytest.raises(ClusterError, match="a cluster's address is host:port"):
        RayWorkerPool(PolicyWorkerFactory(ENVIRONMENT, LIMITS, VERSION), RaySettings(address="somewhere"))
    assert time.monotonic() - started < 10


@pytest.mark.slow
@needs_ray
@pytest.mark.filterwarnings("ignore")  # Ray leaves files and sockets of its own to the garbage collector
def test_a_cluster_without_the_required_resources_is_reported_in_time() -> None:
    factory = PolicyWorkerFactory(ENVIRONMENT, LIMITS, VERSION)
    with pytest.raises(ClusterError, match="there is no Ray cluster at 'auto'"):
        RayWorkerPool(factory, RaySettings(address="auto"))
    with pytest.raises(
        ClusterError, match=r"1 workers were not ready within 0\.001 s.*each worker needs 1 CPUs and 0 GPUs"
    ):
        RayWorkerPool(factory, RaySettings(1, start_seconds=0.001))
    with pytest.raises(ClusterError, match=r"workers cannot start: .*'no-such-kit'"):
        RayWorkerPool(replace(factory, kit="no-such-kit"), RaySettings(1))


class _Fragile(PolicyWorkerRuntime):
    """Kills its process, or blocks, at the task ``deadly`` as often as the file ``lives`` has left."""

    deadly = ""
    lives = Path()
    is_silent = False

    def environment(self, task: Task) -> Environment:
        if task.id == self.deadly and int(self.lives.read_text()) > 0:
            self.lives.write_text(str(int(self.lives.read_text()) - 1))
            if self.is_silent:
                time.sleep(600)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().environment(task)


@dataclass(frozen=True)
class FragileFactory:
    deadly: str
    lives: Path
    is_silent: bool = False

    def __call__(self) -> PolicyWorkerRuntime:
        runtime = _Fragile(AgentRuntime(resolve_kit(ENVIRONMENT), LIMITS), VERSION)
        runtime.deadly, runtime.lives, runtime.is_silent = self.deadly, self.lives, self.is_silent
        return runtime


def _send_by_value() -> None:
    """Classes of this module travel by value: workers cannot import it."""
    cloudpickle: Any = __import__("ray.cloudpickle", fromlist=["register_pickle_by_value"])
    cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.mark.slow
@needs_ray
@pytest.mark.filterwarnings("ignore")  # Ray leaves files and sockets of its own to the garbage collector
def test_two_ray_workers_sample_what_one_process_samples_and_load_weights(tmp_path: Path) -> None:
    kit = resolve_kit(ENVIRONMENT)
    worker = PolicyWorker(AgentRuntime(kit, LIMITS), VERSION)
    with RayWorkerPool(PolicyWorkerFactory(ENVIRONMENT, LIMITS, VERSION), RaySettings(2)) as workers:
        runtime = RayRuntime(kit, LIMITS, workers, tmp_path)
        follow(runtime, worker)
        for factor in (1.0, 1.01):
            with torch.no_grad():
                next(iter(worker.model.parameters())).mul_(factor)
            worker.serve_as(VERSION)
            found = runtime.rollout(jobs(6, 4), PURPOSE)
            assert_same(found, worker.runtime.rollout(jobs(6, 4), PURPOSE))
            assert {item.model_version for item in found} == {weights_hash(worker.model)}
        assert runtime.lost_rollouts == 0
        with pytest.raises(ClusterError, match="a worker cannot load the weights"):
            workers.load_weights(str(tmp_path / "gone"), "w2")


@pytest.mark.slow
@needs_ray
@pytest.mark.filterwarnings("ignore")  # as above
@pytest.mark.parametrize(("deaths", "is_silent"), [(1, False), (1, True), (99, False)])
def test_unfinished_rollouts_of_a_lost_ray_worker_are_repeated(
    tmp_path: Path, deaths: int, is_silent: bool
) -> None:
    """Killed or silent once, nothing is lost; killed each time, only that rollout ends with an error."""
    _send_by_value()
    kit, chosen = resolve_kit(ENVIRONMENT), jobs(4, 1)
    deadly = chosen[1][1].id
    (tmp_path / "lives").write_text(str(deaths))
    worker = PolicyWorker(AgentRuntime(kit, LIMITS), VERSION)
    worker.serve_as(VERSION)
    expected = worker.runtime.rollout(chosen, PURPOSE)
    settings = RaySettings(2, silence_seconds=10.0 if is_silent else 600.0)
    with RayWorkerPool(FragileFactory(deadly, tmp_path / "lives", is_silent), settings) as workers:
        runtime = RayRuntime(kit, LIMITS, workers, tmp_path / "weights")
        follow(runtime, worker)
        found = runtime.rollout(chosen, PURPOSE)
    if deaths == 1:
        assert_same(found, expected)
        assert len(runtime.lost_workers) == 1
    else:
        assert_same([*found[:1], *found[2:]], [*expected[:1], *expected[2:]])
        assert found[1].outcome == "environment_error" and "its worker was lost 3 times" in found[1].error
        assert found[1].id == expected[1].id
        assert len(runtime.lost_workers) == 3
    assert runtime.lost_rollouts >= len(runtime.lost_workers)


class _Telling(PolicyWorkerRuntime):
    """Writes the id of its process into a file when its first rollout starts."""

    file = Path()

    def environment(self, task: Task) -> Environment:
        if not self.file.exists():
            self.file.write_text(str(os.getpid()))
        return super().environment(task)


@dataclass(frozen=True)
class TellingFactory:
    folder: Path

    def __call__(self) -> PolicyWorkerRuntime:
        runtime = _Telling(AgentRuntime(resolve_kit(ENVIRONMENT), LIMITS), VERSION)
        runtime.file = self.folder / str(os.getpid())
        return runtime


class Stored:
    """A sink that keeps the ids of trajectories."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def append(self, run: str, iteration: int, finished: Sequence[Any]) -> None:
        self.ids += [trajectory.id for _, trajectory, _ in finished]


@pytest.mark.slow
@needs_ray
@pytest.mark.filterwarnings("ignore")  # as above
def test_training_goes_on_when_workers_are_killed_and_no_trajectory_is_lost_or_doubled(tmp_path: Path) -> None:
    """In each of three iterations the process of a worker gets SIGKILL from outside while it samples.

    The weights at the end are those of a run whose workers live, up to the rounding that other batches have.
    """
    _send_by_value()
    kit, pids = resolve_kit(ENVIRONMENT), tmp_path / "pids"
    pids.mkdir()
    settings = GrpoSettings(iterations=3, evaluate_every=None, keep="final", minibatches=1)

    def kill_one() -> None:
        while not (files := list(pids.iterdir())):
            time.sleep(0.001)
        os.kill(int(files[0].name), signal.SIGKILL)
        killed.append(files[0].name)

    killed: list[str] = []
    stored, weights, runtimes = [Stored(), Stored()], [], []
    for index, sink in enumerate(stored):
        with RayWorkerPool(TellingFactory(pids), RaySettings(2)) as workers:
            runtime = RayRuntime(kit, LIMITS, workers, tmp_path / f"weights-{index}")
            worker = PolicyWorker(runtime, VERSION)

            def collect(
                iteration: int, /, worker: PolicyWorker = worker, sink: Stored = sink, is_shaken: bool = index == 1
            ) -> Sequence[ScoredGroup]:
                for file in pids.iterdir():
                    file.unlink()
                killer = threading.Thread(target=kill_one) if is_shaken else None
                if killer is not None:
                    killer.start()
                groups = worker.sample_groups(tasks(4), iteration, RolloutSpec("run", 5, 4), sink)
                if killer is not None:
                    killer.join()
                return groups

            run_grpo(worker.model, collect, settings, RunOptions(0, tmp_path / f"run-{index}"))
            weights.append([parameter.detach().clone() for parameter in worker.model.parameters()])
            runtimes.append(runtime)
    assert len(set(killed)) == 3
    assert len(runtimes[0].lost_workers) == 0
    assert len(runtimes[1].lost_workers) == 3
    assert sorted(stored[1].ids) == sorted(stored[0].ids)
    assert len(set(stored[1].ids)) == len(stored[1].ids) == 3 * 4 * 4
    for calm, shaken in zip(*weights, strict=True):
        torch.testing.assert_close(shaken, calm, atol=1e-4, rtol=0)
