"""Workers as Ray actors. Ray is imported when a crew is made, never with this module: ``pip install upturn[ray]``.

A worker is an actor with one workplace; it plays its part on its event loop, where its engine batches all attempts,
and streams each trajectory back when it is finished. Covered: clusters and workers that are not there within a
bounded time, workers that die, workers that say nothing any more (they are ended), and replacing both, with the
weights that the crew holds. Not covered: a driver that dies (its attempts are repeated by whoever resumes the run),
and bringing code or weights to other machines: Upturn has to be installed there, and folders of weights have to lie
under the same path.
"""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from upturn.agents.cluster import Finished, Lost, OpenWorkplace, Work
from upturn.agents.rollout import Job, run_rollouts
from upturn.errors import ClusterError, ConfigError, described
from upturn.records import Trajectory

_COLOURS = re.compile("\x1b\\[[0-9;]*m")
_GATHER_SECONDS = 0.05
"""What a worker finishes within it is sent together: each message costs both sides about a millisecond."""
_REACH_SECONDS = 5.0
"""For one connection to a cluster's address; Ray itself would try for minutes."""


@dataclass(frozen=True, slots=True)
class CrewSettings:
    """How many workers, and where. Raises ConfigError with everything that cannot be."""

    workers: int = 2
    address: str | None = None
    """``host:port`` of a running cluster, or ``auto`` for the one that this machine belongs to; None = a cluster of
    our own on this machine, which ends with the crew."""
    cpus_per_worker: float = 1.0
    """That the cluster sets aside for each."""
    gpus_per_worker: float = 0.0
    slots: int = 192
    """Attempts alive at the same time in one worker."""
    start_seconds: float = 120.0
    """In which workers have to be ready, and to have taken weights."""
    silence_seconds: float = 600.0
    """Workers of which none finished an attempt for so long are ended, and count as lost."""

    def __post_init__(self) -> None:
        """Checks every field."""
        positive = ("workers", "slots", "start_seconds", "silence_seconds")
        problems = [
            f"{name} must be positive, got {getattr(self, name)!r}"
            for name in positive
            if not getattr(self, name) > 0
        ]
        problems += [
            f"{name} must be 0 or more, got {getattr(self, name)!r}"
            for name in ("cpus_per_worker", "gpus_per_worker")
            if not getattr(self, name) >= 0
        ]
        if problems:
            raise ConfigError(problems)


class _Worker:
    """Lives in a process of its own."""

    def __init__(self, open_workplace: OpenWorkplace, slots: int) -> None:
        self._workplace = open_workplace()
        self._slots = slots

    async def take(self, folder: str, version: str) -> str:
        return self._workplace.take(folder, version)

    async def ready(self) -> bool:
        return True

    async def play(self, works: Sequence[Work]) -> AsyncIterator[list[Trajectory]]:
        """Trajectories as they are finished, those of one moment (``_GATHER_SECONDS``) together."""
        self._workplace.begin(works)
        jobs = [Job(work.attempt, self._workplace.setting(work)) for work in works]
        finished: asyncio.Queue[Trajectory | None] = asyncio.Queue()
        rollouts = asyncio.create_task(
            run_rollouts(jobs, self._workplace.environment, slots=self._slots, on_finish=finished.put_nowait)
        )
        rollouts.add_done_callback(lambda _: finished.put_nowait(None))
        is_over = False
        while not is_over:
            found = [await finished.get()]
            await asyncio.wait([rollouts], timeout=_GATHER_SECONDS)
            while not finished.empty():
                found.append(finished.get_nowait())
            is_over = None in found
            trajectories = [each for each in found if each is not None]
            if trajectories:
                yield trajectories
        await rollouts


class RayCrew:
    """A ``Crew`` of Ray actors; a context manager, since they have to be ended."""

    def __init__(self, open_workplace: OpenWorkplace, settings: CrewSettings) -> None:
        """Starts the workers. Raises ClusterError for Ray that is not installed, for a cluster that is not there
        and for workers that do not start in time, each naming the cure.
        """
        self.settings = settings
        self._ray = _imported_ray()
        self._is_ours = _connect(self._ray, settings)
        options = {"num_cpus": settings.cpus_per_worker, "num_gpus": settings.gpus_per_worker}
        self._actor = self._ray.remote(**options)(_Worker)
        self._open = open_workplace
        self._weights: tuple[str, str] | None = None
        """Folder and version of what all workers have; None = what their workplace came with."""
        self._workers: list[Any | None] = [None] * settings.workers
        """Actors; None = lost."""
        try:
            self._complete()
        except BaseException:
            self.close()
            raise

    @property
    def size(self) -> int:
        """As configured."""
        return self.settings.workers

    def take(self, folder: str, version: str) -> None:
        """Gives all workers the weights. Raises ClusterError when one cannot load them, or has others then."""
        self._weights = (folder, version)
        for index, worker in enumerate(self._workers):
            if worker is not None:
                try:
                    self._give(worker)
                except self._gone:
                    self._workers[index] = None
        self._complete()

    def play(self, parts: Sequence[Sequence[Work]]) -> Iterator[Finished | Lost]:
        """See ``Crew``."""
        self._complete()
        streams = {}
        for index, part in enumerate(parts):
            worker: Any = self._workers[index]
            streams[worker.play.remote(list(part))] = index
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
                except self._gone as exc:
                    del streams[stream]
                    yield self._lost(index, _said(exc))
                except self._ray.exceptions.RayError as exc:
                    raise ClusterError(f"worker {index} cannot play: {_said(exc)}") from exc
                else:
                    yield from map(Finished, trajectories)
            for stream in [] if ready else silent:
                index = streams.pop(stream)
                seconds = self.settings.silence_seconds
                yield self._lost(index, f"no worker finished an attempt for {seconds:g} s, so it was ended")

    def close(self) -> None:
        """Ends the workers, and the cluster if it is ours. Closing twice is fine."""
        for index, worker in enumerate(self._workers):
            if worker is not None:
                self._workers[index] = None
                with suppress(Exception):  # whatever Ray says of a worker or a cluster that has gone already
                    self._ray.kill(worker)
        if self._is_ours:
            self._is_ours = False
            self._ray.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _gone(self) -> tuple[type[BaseException], ...]:
        """What Ray raises when an actor, its machine or its results are gone."""
        known = self._ray.exceptions
        return (known.RayActorError, known.ObjectLostError, known.NodeDiedError, known.WorkerCrashedError)

    def _lost(self, index: int, reason: str) -> Lost:
        worker, self._workers[index] = self._workers[index], None
        if worker is not None:
            with suppress(Exception):  # it may be gone already
                self._ray.kill(worker)
        return Lost(index, reason)

    def _complete(self) -> None:
        """Starts a worker for each that is missing."""
        missing = [index for index, worker in enumerate(self._workers) if worker is None]
        started = {index: self._actor.remote(self._open, self.settings.slots) for index in missing}
        seconds = self.settings.start_seconds
        try:
            self._ray.get([worker.ready.remote() for worker in started.values()], timeout=seconds)
            for index, worker in started.items():
                self._workers[index] = worker
                if self._weights is not None:
                    self._give(worker)
        except self._ray.exceptions.GetTimeoutError as exc:
            raise ClusterError(
                f"{len(missing)} workers were not ready within {seconds:g} s; the cluster has "
                f"{self._ray.available_resources()!r} left, each worker needs {self.settings.cpus_per_worker:g} "
                f"CPUs and {self.settings.gpus_per_worker:g} GPUs: add machines, or take fewer workers"
            ) from exc
        except self._ray.exceptions.RayError as exc:
            raise ClusterError(f"workers cannot start: {_said(exc)}") from exc

    def _give(self, worker: Any) -> None:
        assert self._weights is not None
        folder, version = self._weights
        try:
            found = self._ray.get(worker.take.remote(folder, version), timeout=self.settings.start_seconds)
        except self._ray.exceptions.RayTaskError as exc:
            raise ClusterError(
                f"a worker cannot take the weights in {folder!r}: {_said(exc)}; the folder has to lie under "
                "the same path on every machine of the cluster"
            ) from exc
        except self._ray.exceptions.GetTimeoutError as exc:
            raise ClusterError(
                f"a worker did not take the weights in {folder!r} within {self.settings.start_seconds:g} s; look "
                "at the disk that it lies on, or allow more with start_seconds"
            ) from exc
        if found != version:
            raise ClusterError(f"a worker has weights {found!r} after it took {version!r} from {folder!r}")


def check_cluster(settings: CrewSettings) -> None:
    """Raises ClusterError where Ray is not installed, or where nobody listens at the cluster's address.

    Nothing is started or connected. Of a cluster of our own, and of ``auto``, only Ray itself is looked for.
    """
    _imported_ray()
    if settings.address is not None:
        _reach(settings.address)


def _said(exc: BaseException) -> str:
    """First and last line of what Ray says: between them stand traces, and the last names what broke."""
    lines = [line.strip() for line in _COLOURS.sub("", described(exc, longest=20_000)).splitlines() if line.strip()]
    return lines[0][:300] if len(lines) == 1 else f"{lines[0][:300]} ... {lines[-1][:700]}"


def _imported_ray() -> Any:
    try:
        import_module("ray.exceptions")
        return import_module("ray")
    except ImportError as exc:
        raise ClusterError(
            "workers of a cluster need Ray, which is not installed: pip install 'upturn[ray]'"
        ) from exc


def _connect(ray: Any, settings: CrewSettings) -> bool:
    """Whether the cluster was started here. An open connection of this process is used as it is."""
    if ray.is_initialized():
        return False
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if settings.address is None:
        cpus = max(1, round(settings.workers * settings.cpus_per_worker))
        try:
            ray.init(address="local", num_cpus=cpus, include_dashboard=False, **quiet)
        except Exception as exc:  # as below
            raise ClusterError(
                f"no Ray cluster of our own starts here: {described(exc)}; look at free memory, /dev/shm and "
                "ports, or name the address of one that runs"
            ) from exc
        return True
    _reach(settings.address)
    try:
        ray.init(address=settings.address, **quiet)
    except Exception as exc:  # Ray raises its own, built-in errors and RuntimeError here
        raise ClusterError(
            f"there is no Ray cluster at {settings.address!r}: {described(exc)}; start one with `ray start --head`,"
            " or leave the address out for one on this machine"
        ) from exc
    return False


def _reach(address: str) -> None:
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
        socket.create_connection((host, port), timeout=_REACH_SECONDS).close()
    except OSError as exc:
        raise ClusterError(
            f"there is no Ray cluster at {address!r}: {exc}; start one with `ray start --head`, or leave the "
            "address out for one on this machine"
        ) from exc
