"""Workers as Ray actors. Ray is imported when a pool is made, never with this module: ``pip install upturn[ray]``.

A worker is an actor with one runtime; it runs its part on its event loop, where its engine batches all rollouts,
and streams each trajectory back when it is finished. Covered: clusters and workers that do not start in time,
workers that die, workers that become silent (they are killed), and replacing both with the pool's current weights.
Not covered: a driver that dies (resuming the run repeats its rollouts), and copying code or weights to other
machines: Upturn must be installed there, and folders of weights must have the same path.
"""

import asyncio
import math
import os
import re
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from upturn.agents.cluster import LostWorker, MakeRuntime, WorkItem
from upturn.agents.rollout import Job, run_rollouts
from upturn.errors import ClusterError, ConfigError, error_text
from upturn.records import Trajectory

_COLOURS = re.compile("\x1b\\[[0-9;]*m")
_GATHER_SECONDS = 0.05
"""Trajectories finished within this time are sent together: a message costs both sides about a millisecond."""
_ADDRESS_REMEDY = "start one with `ray start --head`, or remove the address for a local one"
_CONNECT_SECONDS = 5.0
"""Timeout of a connection to a cluster's address; Ray itself would try for minutes."""


@dataclass(frozen=True, slots=True)
class RaySettings:
    """Number, resources and location of the workers. Raises ConfigError with all invalid values."""

    workers: int = 2
    address: str | None = None
    """``host:port`` of a running cluster, or ``auto`` for the one that this machine belongs to; None = a new local
    cluster, which ends with the pool."""
    cpus_per_worker: float = 1.0
    """CPUs that the cluster reserves per worker."""
    gpus_per_worker: float = 0.0
    """GPUs that the cluster gives to each worker, the only ones that it sees: a part of one, or a whole number. 0 =
    workers see none."""
    slots: int = 192
    """Concurrent rollouts in one worker."""
    start_seconds: float = 120.0
    """Timeout for starting workers, and for loading weights."""
    silence_seconds: float = 600.0
    """If no worker finishes a rollout for this long, all running ones are killed and count as lost."""

    def __post_init__(self) -> None:
        """Checks every field."""
        problems = [
            f"{name} must be positive, got {getattr(self, name)!r}"
            for name in ("workers", "slots", "start_seconds", "silence_seconds")
            if not getattr(self, name) > 0
        ] + [
            f"{name} must be 0 or more, got {getattr(self, name)!r}"
            for name in ("cpus_per_worker", "gpus_per_worker")
            if not getattr(self, name) >= 0
        ]
        if self.gpus_per_worker > 1 and self.gpus_per_worker % 1:
            problems.append(
                f"gpus_per_worker must be a whole number above 1, got {self.gpus_per_worker!r}; parts of a GPU are "
                "for values below 1"
            )
        if problems:
            raise ConfigError(problems)


class _Worker:
    """The actor, in a separate process."""

    def __init__(self, open_runtime: MakeRuntime, slots: int, *, sees_gpus: bool) -> None:
        if not sees_gpus:  # versions of Ray differ in whether they hide GPUs that a worker did not get
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        self._runtime = open_runtime()
        self._slots = slots

    async def load_weights(self, folder: str, version: str) -> str:
        return self._runtime.load_weights(folder, version)

    async def ready(self) -> bool:
        return True

    async def run(self, items: Sequence[WorkItem]) -> AsyncIterator[list[Trajectory]]:
        """Trajectories as they finish, in batches of ``_GATHER_SECONDS``."""
        self._runtime.prepare(items)
        jobs = [Job(item.request, self._runtime.setting(item)) for item in items]
        finished: asyncio.Queue[Trajectory | None] = asyncio.Queue()
        rollouts = asyncio.create_task(
            run_rollouts(jobs, self._runtime.environment, slots=self._slots, on_finish=finished.put_nowait)
        )
        rollouts.add_done_callback(lambda _: finished.put_nowait(None))
        is_over = False
        while not is_over:
            batch = [await finished.get()]
            await asyncio.wait([rollouts], timeout=_GATHER_SECONDS)
            while not finished.empty():
                batch.append(finished.get_nowait())
            is_over = None in batch
            trajectories = [trajectory for trajectory in batch if trajectory is not None]
            if trajectories:
                yield trajectories
        await rollouts


class RayWorkerPool:
    """A ``WorkerPool`` of Ray actors; a context manager that ends them."""

    def __init__(self, open_runtime: MakeRuntime, settings: RaySettings) -> None:
        """Starts the workers. Raises ClusterError, with the remedy, when Ray is not installed, the cluster cannot
        be reached or lacks GPUs, or workers do not start in time."""
        self.settings = settings
        self._ray = _import_ray()
        self._owns_cluster = _connect(self._ray, settings)
        options = {"num_cpus": settings.cpus_per_worker, "num_gpus": settings.gpus_per_worker}
        self._actor = self._ray.remote(**options)(_Worker)
        self._open = open_runtime
        self._weights: tuple[str, str] | None = None
        """Folder and version of all workers' weights; None = the runtime's initial ones."""
        self._workers: list[Any | None] = [None] * settings.workers
        """Actors; None = lost."""
        try:
            check_gpus(settings, self._ray.nodes())
            self._start_missing()
        except BaseException:
            self.close()
            raise

    @property
    def size(self) -> int:
        """The configured number of workers."""
        return self.settings.workers

    def load_weights(self, folder: str, version: str) -> None:
        """Loads the weights in all workers.

        Raises ClusterError when one cannot load them, or reports other ones.
        """
        self._weights = (folder, version)
        for index, worker in enumerate(self._workers):
            if worker is not None:
                try:
                    self._send_weights(worker)
                except self._loss_errors:
                    self._workers[index] = None
        self._start_missing()

    def run(self, parts: Sequence[Sequence[WorkItem]]) -> Iterator[Trajectory | LostWorker]:
        """See ``WorkerPool``."""
        self._start_missing()
        streams = {}
        for index, part in enumerate(parts):
            worker: Any = self._workers[index]
            streams[worker.run.remote(list(part))] = index
        while streams:
            ready, silent = self._ray.wait(
                list(streams), num_returns=1, timeout=self.settings.silence_seconds, fetch_local=False
            )
            for stream in ready:
                index = streams[stream]
                try:
                    trajectories = self._ray.get(next(stream))
                except StopIteration:
                    del streams[stream]
                except self._loss_errors as exc:
                    del streams[stream]
                    self._kill(index)
                    yield LostWorker(index, _summary(exc))
                except self._ray.exceptions.RayError as exc:
                    raise ClusterError(f"worker {index} failed: {_summary(exc)}") from exc
                else:
                    yield from trajectories
            for stream in [] if ready else silent:
                index = streams.pop(stream)
                seconds = self.settings.silence_seconds
                self._kill(index)
                yield LostWorker(index, f"no worker finished a rollout for {seconds:g} s, so it was killed")

    def close(self) -> None:
        """Ends the workers, and the cluster if it was started here. May be called twice."""
        for index in range(self.size):
            self._kill(index)
        if self._owns_cluster:
            self._owns_cluster = False
            self._ray.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _loss_errors(self) -> tuple[type[BaseException], ...]:
        """Ray's errors for a lost actor, machine or result."""
        errors = self._ray.exceptions
        return (errors.RayActorError, errors.ObjectLostError, errors.NodeDiedError, errors.WorkerCrashedError)

    def _kill(self, index: int) -> None:
        worker, self._workers[index] = self._workers[index], None
        if worker is not None:
            with suppress(Exception):  # the worker or cluster may be gone already
                self._ray.kill(worker)

    def _start_missing(self) -> None:
        """Starts workers in place of lost ones."""
        missing = [index for index, worker in enumerate(self._workers) if worker is None]
        settings, seconds = self.settings, self.settings.start_seconds
        sees_gpus = settings.gpus_per_worker > 0
        started = {index: self._actor.remote(self._open, settings.slots, sees_gpus=sees_gpus) for index in missing}
        try:
            self._ray.get([worker.ready.remote() for worker in started.values()], timeout=seconds)
            for index, worker in started.items():
                self._workers[index] = worker
                if self._weights is not None:
                    self._send_weights(worker)
        except self._ray.exceptions.GetTimeoutError as exc:
            raise ClusterError(
                f"{len(missing)} workers were not ready within {seconds:g} s; the cluster has "
                f"{self._ray.available_resources()!r} left, each worker needs {self.settings.cpus_per_worker:g} "
                f"CPUs and {self.settings.gpus_per_worker:g} GPUs: add machines, or take fewer workers"
            ) from exc
        except self._ray.exceptions.RayError as exc:
            raise ClusterError(f"workers cannot start: {_summary(exc)}") from exc

    def _send_weights(self, worker: Any) -> None:
        assert self._weights is not None
        folder, version = self._weights
        try:
            loaded = self._ray.get(worker.load_weights.remote(folder, version), timeout=self.settings.start_seconds)
        except self._ray.exceptions.RayTaskError as exc:
            raise ClusterError(
                f"a worker cannot load the weights in {folder!r}: {_summary(exc)}; the folder must have the same "
                "path on every machine of the cluster"
            ) from exc
        except self._ray.exceptions.GetTimeoutError as exc:
            raise ClusterError(
                f"a worker did not load the weights in {folder!r} within {self.settings.start_seconds:g} s; check "
                "its disk, or raise start_seconds"
            ) from exc
        if loaded != version:
            raise ClusterError(f"a worker has weights {loaded!r} after loading {version!r} from {folder!r}")


def check_cluster(settings: RaySettings) -> None:
    """Raises ClusterError where Ray is not installed, or nothing listens at the cluster's address.

    Starts and joins nothing. For a local cluster, and for ``auto``, only checks that Ray is installed.
    """
    _import_ray()
    if settings.address is not None:
        _check_address(settings.address)


def check_gpus(settings: RaySettings, nodes: Sequence[Mapping[str, Any]]) -> None:
    """Raises ClusterError where the machines, as ``ray.nodes()`` lists them, have too few GPUs for the workers.

    The GPUs of a worker are on one machine. GPUs that others use now are counted: the workers wait for them.
    """
    each = settings.gpus_per_worker
    if not each:
        return
    gpus = {
        str(node["NodeManagerAddress"]): float(node["Resources"].get("GPU", 0.0)) for node in nodes if node["Alive"]
    }
    room = sum(math.floor(count / each + 1e-9) for count in gpus.values())
    if room < settings.workers:
        machines = ", ".join(f"{address} has {count:g}" for address, count in gpus.items())
        raise ClusterError(
            f"the cluster has GPUs for {room} of {settings.workers} workers with gpus_per_worker = {each:g}: "
            f"{machines}. Set a part of a GPU, or 0 for sampling on CPUs, take fewer workers, or add machines"
        )


def _summary(exc: BaseException) -> str:
    """First and last line of Ray's message: between them are traces, and the last names the cause."""
    text = _COLOURS.sub("", error_text(exc, longest=20_000))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:300] if len(lines) == 1 else f"{lines[0][:300]} ... {lines[-1][:700]}"


def _import_ray() -> Any:
    try:
        import_module("ray.exceptions")
        return import_module("ray")
    except ImportError as exc:
        raise ClusterError(
            "workers of a cluster need Ray, which is not installed: pip install 'upturn[ray]'"
        ) from exc


def _connect(ray: Any, settings: RaySettings) -> bool:
    """Returns whether the cluster was started here. An open connection of this process is used unchanged."""
    if ray.is_initialized():
        return False
    options: dict[str, Any] = {"address": settings.address}
    problem = f"there is no Ray cluster at {settings.address!r}"
    remedy = _ADDRESS_REMEDY
    if settings.address is None:
        cpus = max(1, round(settings.workers * settings.cpus_per_worker))
        options = {"address": "local", "num_cpus": cpus, "include_dashboard": False}
        problem = "no local Ray cluster could be started"
        remedy = "check free memory, /dev/shm and ports, or name the address of a running one"
    else:
        _check_address(settings.address)
    try:
        ray.init(**options, log_to_driver=False, logging_level="ERROR")
    except Exception as exc:  # Ray raises its own errors, built-in ones and RuntimeError here
        raise ClusterError(f"{problem}: {error_text(exc)}; {remedy}") from exc
    return settings.address is None


def _check_address(address: str) -> None:
    """Raises ClusterError unless something listens there."""
    if address in {"auto", "local"}:
        return
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or port is None:
        raise ClusterError(f"a cluster's address is host:port, ray://host:port or 'auto', got {address!r}")
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except OSError as exc:
        raise ClusterError(f"there is no Ray cluster at {address!r}: {exc}; {_ADDRESS_REMEDY}") from exc
