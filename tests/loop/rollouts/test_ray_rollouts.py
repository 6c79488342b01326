"""Rollouts by workers: what one process would give, whoever is lost meanwhile. With Ray where it is installed."""

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

import pytest
import torch

from benchmarks.errands import ENVIRONMENT, MODEL
from upturn.agents import Job, run_rollouts
from upturn.agents.cluster import LostWorker, WorkItem
from upturn.agents.ray_workers import RaySettings, RayWorkerPool
from upturn.config import AdapterSettings, Limits
from upturn.environments import Environment
from upturn.environments.kit import resolve_kit
from upturn.errors import ClusterError, ConfigError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutPlan
from upturn.loop.rollouts.ray_rollouts import OpenPolicyWorker, RayRuntime, TraineeWorkplace
from upturn.models.engine import weights_hash
from upturn.models.shipped import load_local
from upturn.records import AgentVersion, Task, Trajectory
from upturn.training.advantage import ScoredGroup
from upturn.training.data.async_rollouts import AheadCollect
from upturn.training.distributed.weights import restore_weights

LIMITS = Limits(max_turns=6, max_tokens=256, max_action_tokens=24)
VERSION = AgentVersion("nano", "1", "local_model", model=MODEL)
PURPOSE = Purpose("run/0", 11, temperature=1.0)
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="the extra ray is not installed")


def tasks(count: int) -> list[Task]:
    kit = resolve_kit(ENVIRONMENT)
    return list(islice(kit.tasks(seed=3, split="train", families=["mail_file", "cell_ask", "unread_count"]), count))


def jobs(count: int = 4, attempts: int = 3) -> list[tuple[AgentVersion, Task, int]]:
    return [(VERSION, task, number) for task in tasks(count) for number in range(attempts)]


def assert_same(found: Sequence[Trajectory], expected: Sequence[Trajectory]) -> None:
    """Log-probs within 1e-4, all else equal."""
    for one, other in zip(found, expected, strict=True):
        for row, twin in zip(one.rows, other.rows, strict=True):
            assert row.logprobs == pytest.approx(twin.logprobs, abs=1e-4)
        bare = [
            replace(
                each,
                rows=tuple(replace(row, logprobs=()) for row in each.rows),
                usage=replace(each.usage, seconds=0.0),
            )
            for each in (one, other)
        ]
        assert bare[0] == bare[1]


class InProcess:
    """A crew whose workers are workplaces of this process, played one after another."""

    def __init__(self, open_workplace: OpenPolicyWorker, size: int = 2) -> None:
        self.places = [open_workplace() for _ in range(size)]
        self.size = size
        self.taken: list[str] = []

    def load_weights(self, folder: str, version: str) -> None:
        self.taken.append(version)
        assert [place.load_weights(folder, version) for place in self.places] == [version] * self.size

    def run(self, parts: Sequence[Sequence[WorkItem]]) -> Iterator[Trajectory | LostWorker]:
        for place, part in zip(self.places, parts, strict=False):
            place.prepare(part)
            yield from asyncio.run(
                run_rollouts([Job(work.request, place.setting(work)) for work in part], place.environment)
            )


class NoSink:
    """Keeps nothing."""

    def append(self, run: str, iteration: int, finished: Sequence[Any]) -> None:
        pass


@pytest.fixture
def flushing() -> Iterator[None]:
    """A workplace sets torch's threads and flushes denormal numbers, as a worker's process may."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    torch.set_flush_denormal(False)


@pytest.mark.parametrize("adapter", [None, AdapterSettings(4)])
def test_a_crew_gives_what_the_fleet_gives_with_the_weights_of_the_moment(
    tmp_path: Path, flushing: None, adapter: AdapterSettings | None
) -> None:
    """Workers have whole models, also where an adapter is trained.

    Tokens are equal with probability above 1 − 1e-3: a rounding of 1e-6 decides on few of some 1,000 tokens.
    """
    kit = resolve_kit(ENVIRONMENT)
    crew = InProcess(OpenPolicyWorker(ENVIRONMENT, LIMITS, VERSION))
    runtime = RayRuntime(kit, LIMITS, crew, tmp_path)
    worker = PolicyWorker(AgentRuntime(kit, LIMITS), VERSION, adapter)
    trained = [each for each in worker.model.parameters() if each.requires_grad]
    with torch.no_grad():
        trained[1].add_(0.01)  # other weights than the workers have; an adapter's second matrix is its first B
    worker.serve_as(VERSION)
    runtime.follow(worker.model)
    found, expected = runtime.rollout(jobs(), PURPOSE), worker.runtime.rollout(jobs(), PURPOSE)
    assert_same(found, expected)
    assert {each.model_version for each in found} == {weights_hash(worker.model)} == set(crew.taken)
    assert runtime.lost_attempts == 0 and runtime.lost_workers == []


def test_the_thread_that_plays_computes_as_training_does_and_with_as_many_threads_as_asked() -> None:
    """A worker is made in one thread and plays in another; torch's rounding and threads are each thread's own."""
    workplace = OpenPolicyWorker(ENVIRONMENT, LIMITS, VERSION, threads=2)()
    found = list[object]()

    def play() -> None:
        denormal = torch.tensor(1e-40)
        before = float(denormal * 1.0)
        workplace.prepare([])
        found.extend([before > 0, float(denormal * 1.0), torch.get_num_threads()])

    thread = threading.Thread(target=play)
    thread.start()
    thread.join()
    assert found == [True, 0.0, 2]


def test_practice_goes_through_a_crew_as_through_a_fleet(tmp_path: Path, flushing: None) -> None:
    kit = resolve_kit(ENVIRONMENT)
    runtime = RayRuntime(kit, LIMITS, InProcess(OpenPolicyWorker(ENVIRONMENT, LIMITS, VERSION)), tmp_path)
    worker = PolicyWorker(runtime, VERSION)
    runtime.follow(worker.model)
    local = PolicyWorker(AgentRuntime(kit, LIMITS), VERSION)
    practice = RolloutPlan("run", 5, 3)
    found, expected = (each.sample_groups(tasks(3), 2, practice, NoSink()) for each in (worker, local))
    assert [[member.turn_rewards for member in group.members] for group in found] == [
        [member.turn_rewards for member in group.members] for group in expected
    ]
    assert_same(
        [member.trajectory for group in found for member in group.members],
        [member.trajectory for group in expected for member in group.members],
    )


def test_sampling_ahead_through_a_crew_is_stamped_with_the_promised_weights(tmp_path: Path, flushing: None) -> None:
    """Two iterations with staleness 1 come from the weights before training, the third from those after one."""
    kit = resolve_kit(ENVIRONMENT)
    runtime = RayRuntime(kit, LIMITS, InProcess(OpenPolicyWorker(ENVIRONMENT, LIMITS, VERSION), 1), tmp_path)
    ahead, model = PolicyWorker(runtime, VERSION), load_local(MODEL).model
    runtime.follow(ahead.model)

    def sample(iteration: int, weights: Mapping[str, torch.Tensor]) -> list[ScoredGroup]:
        restore_weights(ahead.model, weights)
        return ahead.sample_groups(tasks(1), iteration, RolloutPlan("run", 5, 2), NoSink())

    versions = []
    with AheadCollect(model, sample, staleness=1, iterations=3) as collect:
        for iteration in range(3):
            groups = collect(iteration)
            versions.append({member.trajectory.model_version for group in groups for member in group.members})
            with torch.no_grad():
                next(iter(model.parameters())).mul_(1.01)
    assert versions[0] == versions[1] != versions[2]


def test_a_crew_plays_one_version_that_it_follows(tmp_path: Path) -> None:
    class Nobody:
        size = 1

        def load_weights(self, folder: str, version: str) -> None: ...

        def run(self, parts: Sequence[Sequence[WorkItem]]) -> Iterator[Trajectory | LostWorker]:
            yield from ()

    runtime = RayRuntime(resolve_kit(ENVIRONMENT), LIMITS, Nobody(), tmp_path)
    with pytest.raises(ClusterError, match=r"asked for \['nano@1'\]"):
        runtime.rollout(jobs(1, 1), PURPOSE)


def test_settings_that_cannot_be_are_refused_together() -> None:
    with pytest.raises(ConfigError) as caught:
        RaySettings(0, None, -1.0, -1.0, 0, 0.0, float("nan"))
    assert len(caught.value.problems) == 6


@pytest.mark.skipif(find_spec("ray") is not None, reason="ray is installed")
def test_without_ray_the_cure_is_named() -> None:
    with pytest.raises(ClusterError, match=r"not installed: pip install 'upturn\[ray\]'"):
        RayWorkerPool(OpenPolicyWorker(ENVIRONMENT, LIMITS, VERSION), RaySettings())


@needs_ray
def test_a_cluster_that_is_not_there_is_named_within_seconds() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    started = time.monotonic()
    with pytest.raises(ClusterError, match=f"there is no Ray cluster at '{address}'.*ray start --head"):
        RayWorkerPool(OpenPolicyWorker(ENVIRONMENT, LIMITS, VERSION), RaySettings(address=address))
    with pytest.raises(ClusterError, match="a cluster's address is host:port"):
        RayWorkerPool(OpenPolicyWorker(ENVIRONMENT, LIMITS, VERSION), RaySettings(address="somewhere"))
    assert time.monotonic() - started < 10


@pytest.mark.slow
@needs_ray
@pytest.mark.filterwarnings("ignore")  # Ray leaves files and sockets of its own to the garbage collector
def test_a_cluster_that_lacks_what_workers_need_is_named_within_the_time() -> None:
    opened = OpenPolicyWorker(ENVIRONMENT, LIMITS, VERSION)
    with pytest.raises(ClusterError, match="there is no Ray cluster at 'auto'"):
        RayWorkerPool(opened, RaySettings(address="auto"))
    with pytest.raises(
        ClusterError, match=r"1 workers were not ready within 3 s.*each worker needs 1 CPUs and 1 GPUs"
    ):
        RayWorkerPool(opened, RaySettings(1, gpus_per_worker=1.0, start_seconds=3.0))
    with pytest.raises(ClusterError, match=r"workers cannot start: .*'no-such-kit'"):
        RayWorkerPool(replace(opened, kit="no-such-kit"), RaySettings(1))


class _Fragile(TraineeWorkplace):
    """Kills its own process when it meets a task named in ``deadly``, as long as the file there has lives left."""

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
class OpenFragile:
    deadly: str
    lives: Path
    is_silent: bool = False

    def __call__(self) -> TraineeWorkplace:
        place = _Fragile(AgentRuntime(resolve_kit(ENVIRONMENT), LIMITS), VERSION)
        place.deadly, place.lives, place.is_silent = self.deadly, self.lives, self.is_silent
        return place


def _send_by_value() -> None:
    """Classes of this module travel by value: workers cannot import it."""
    cloudpickle: Any = __import__("ray.cloudpickle", fromlist=["register_pickle_by_value"])
    cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.mark.slow
@needs_ray
@pytest.mark.filterwarnings("ignore")  # Ray leaves files and sockets of its own to the garbage collector
def test_two_ray_workers_give_the_trajectories_of_one_process_and_take_weights(tmp_path: Path) -> None:
    kit = resolve_kit(ENVIRONMENT)
    worker = PolicyWorker(AgentRuntime(kit, LIMITS), VERSION)
    with RayWorkerPool(OpenPolicyWorker(ENVIRONMENT, LIMITS, VERSION), RaySettings(2)) as crew:
        runtime = RayRuntime(kit, LIMITS, crew, tmp_path)
        runtime.follow(worker.model)
        for factor in (1.0, 1.01):
            with torch.no_grad():
                next(iter(worker.model.parameters())).mul_(factor)
            worker.serve_as(VERSION)
            found = runtime.rollout(jobs(6, 4), PURPOSE)
            assert_same(found, worker.runtime.rollout(jobs(6, 4), PURPOSE))
            assert {each.model_version for each in found} == {weights_hash(worker.model)}
        assert runtime.lost_attempts == 0
        with pytest.raises(ClusterError, match="a worker cannot take the weights"):
            crew.load_weights(str(tmp_path / "gone"), "w2")


@pytest.mark.slow
@needs_ray
@pytest.mark.filterwarnings("ignore")  # as above
@pytest.mark.parametrize(("deaths", "is_silent"), [(1, False), (1, True), (99, False)])
def test_a_ray_worker_that_is_lost_costs_its_unfinished_attempts_one_more_try(
    tmp_path: Path, deaths: int, is_silent: bool
) -> None:
    """Killed or silent once, nothing is lost; killed each time, that attempt alone is recorded as broken."""
    _send_by_value()
    kit, chosen = resolve_kit(ENVIRONMENT), jobs(4, 1)
    deadly = chosen[1][1].id
    (tmp_path / "lives").write_text(str(deaths))
    worker = PolicyWorker(AgentRuntime(kit, LIMITS), VERSION)
    worker.serve_as(VERSION)
    expected = worker.runtime.rollout(chosen, PURPOSE)
    settings = RaySettings(2, silence_seconds=10.0 if is_silent else 600.0)
    with RayWorkerPool(OpenFragile(deadly, tmp_path / "lives", is_silent), settings) as crew:
        runtime = RayRuntime(kit, LIMITS, crew, tmp_path / "weights")
        runtime.follow(worker.model)
        found = runtime.rollout(chosen, PURPOSE)
    if deaths == 1:
        assert_same(found, expected)
        assert len(runtime.lost_workers) == 1
    else:
        assert_same([*found[:1], *found[2:]], [*expected[:1], *expected[2:]])
        assert found[1].outcome == "environment_error" and "its worker was lost 3 times" in found[1].error
        assert found[1].id == expected[1].id
        assert len(runtime.lost_workers) == 3
    assert runtime.lost_attempts >= len(runtime.lost_workers)
