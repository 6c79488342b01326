"""Rollouts by the workers of a cluster: they sample with the weights that this process trains.

``PolicyWorkerFactory`` is sent to each worker and builds there what ``PolicyWorker`` builds here. ``RayRuntime``
replaces an ``AgentRuntime``: it hands over the present weights, then distributes its rollouts over the workers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from upturn.agents import (
    BranchPoint,
    RolloutRequest,
    Setting,
    WorkerPool,
    WorkItem,
    example_count,
    run_on_workers,
)
from upturn.config import Limits
from upturn.environments import Environment, EnvironmentKit, resolve_kit
from upturn.errors import ClusterError
from upturn.loop.agent_runtime import AgentRuntime, Engine, Purpose, calls_of
from upturn.loop.rollouts.policy_worker import PolicyWorker
from upturn.loop.weight_sync import WeightSync
from upturn.models import Generation, GenerationRequest, LocalModel, choose_device, model_folder
from upturn.records import AgentVersion, Task, Trajectory

_RETAINED = 2
"""Folders of weights: a replacement worker may still load from the last but one."""


@dataclass(frozen=True, slots=True)
class PolicyWorkerFactory:
    """Builds a worker's runtime: a kit, and a version with its engine and weights."""

    kit: str
    """Registered name or ``module:factory``, importable where the worker runs."""
    limits: Limits
    version: AgentVersion
    threads: int = 1
    """Torch threads of one worker."""
    device: str = "auto"
    """As in ``run.device``, of the worker's machine."""

    def __call__(self) -> "PolicyWorkerRuntime":
        """Called in the worker's process."""
        runtime = AgentRuntime(resolve_kit(self.kit), self.limits, device=choose_device(self.device))
        return PolicyWorkerRuntime(runtime, self.version, threads=self.threads)


class PolicyWorkerRuntime:
    """A ``WorkerRuntime`` with one version."""

    def __init__(self, runtime: AgentRuntime, version: AgentVersion, *, threads: int = 1) -> None:
        """``threads``: of torch."""
        self._threads = threads
        self._worker = PolicyWorker(runtime, version)
        self._agent = runtime.agent_of(version, self._worker.renderer)

    def load_weights(self, folder: str, version: str) -> str:
        """Raises ModelError, with the present weights unchanged, for a missing or damaged folder."""
        from upturn.training.distributed import restore_weights, weight_tensors
        from upturn.training.runs import load_version

        if self._worker.engine.version != version:
            restore_weights(self._worker.model, weight_tensors(load_version(Path(folder))))
            self._worker.engine.refresh()
        return self._worker.engine.version

    def prepare(self, works: Sequence[WorkItem]) -> None:  # noqa: ARG002
        """Clears the engine's caches and configures torch, whose settings belong to the current thread."""
        import torch

        torch.set_num_threads(self._threads)
        torch.set_flush_denormal(True)  # as in the training process
        self._worker.engine.refresh()

    def setting(self, work: WorkItem) -> Setting:
        """The setting with this worker's agent and engine."""
        return Setting(
            key=work.key,
            agent=self._agent,
            agent_version=work.agent_version,
            model=self._worker.engine,
            limits=self._worker.runtime.limits,
            seed=work.seed,
            temperature=work.temperature,
            sampling=work.sampling,
            calls=calls_of(work.sampling, self._worker.renderer),
            fixes_sampling=work.fixes_sampling,
        )

    def environment(self, task: Task) -> Environment:
        """A new environment of the kit."""
        return self._worker.runtime.kit.environment(task)


class WorkersModel:
    """Stands for the workers' engines: ``refresh`` hands one model's present weights over to all of them.

    Builds an engine in this process where it is asked to generate: hinted retries run here, since workers do not
    have their kit.
    """

    def __init__(self, sync: WeightSync, local: LocalModel, build_engine: Callable[[LocalModel], Engine]) -> None:
        self._sync = sync
        self._local = local
        self._build_engine = build_engine
        self._engine: Engine | None = None
        self._version = ""

    @property
    def version(self) -> str:
        """Hash of the weights of the latest ``refresh``; empty = there was none."""
        return self._version

    def refresh(self) -> None:
        """Hands over the present weights; no rollouts may run."""
        self._version = self._sync.push(self._local.model, companions=model_folder(self._local.name))
        if self._engine is not None:
            self._engine.refresh()

    async def generate(self, request: GenerationRequest) -> Generation:
        """The continuation by an engine in this process."""
        if self._engine is None:
            self._engine = self._build_engine(self._local)
        return await self._engine.generate(request)

    def release(self, session: str) -> None:
        """Frees a session's cache in this process."""
        if self._engine is not None:
            self._engine.release(session)


class RayRuntime(AgentRuntime):
    """A runtime whose rollouts run on workers, for one agent's versions. Not thread-safe: see ``sibling``."""

    def __init__(
        self,
        kit: EnvironmentKit,
        limits: Limits,
        workers: WorkerPool,
        folder: Path,
        *,
        retries: int = 2,
        parent: "RayRuntime | None" = None,
    ) -> None:
        """``folder``: of the weights that are handed over, see ``WeightSync``. ``retries``: see
        ``run_on_workers``. ``parent``: a runtime on the same workers; None means that there is none."""
        super().__init__(kit, limits)
        self._workers = workers
        self._folder = folder
        self._retries = retries

        def load(path: Path, version: str) -> None:
            workers.load_weights(str(path), version)

        own = WeightSync(load, folder, retained=_RETAINED)
        self._sync: WeightSync = own if parent is None else parent._sync
        self._lock: Any = Lock() if parent is None else parent._lock
        """Held while weights are handed over and sampled from."""
        self.lost_workers: list[str] = [] if parent is None else parent.lost_workers
        """Reasons of the losses of workers so far."""
        self._lost_rollouts: list[int] = [] if parent is None else parent._lost_rollouts

    @property
    def lost_rollouts(self) -> int:
        """Rollouts lost with their worker so far, counted once per loss."""
        return sum(self._lost_rollouts)

    def sibling(self, kit: EnvironmentKit | None = None) -> AgentRuntime:
        """Another runtime on the same workers; one in this process for a kit that workers do not have."""
        if kit is not None:
            return AgentRuntime(kit, self.limits, device=self.device)
        runtime = RayRuntime(self.kit, self.limits, self._workers, self._folder, retries=self._retries, parent=self)
        runtime.device = self.device
        return runtime

    def close(self) -> None:
        """Removes the folders of weights."""
        self._sync.close()

    def engine_for(self, local: LocalModel) -> Engine:
        """Hands the model's present weights over to the workers, without building an engine here."""
        return WorkersModel(self._sync, local, super().engine_for)

    def rollout(
        self,
        jobs: Sequence[tuple[AgentVersion, Task, int]],
        purpose: Purpose,
        branch_points: Sequence[BranchPoint] | None = None,
    ) -> list[Trajectory]:
        """See ``AgentRuntime.rollout``. Raises ClusterError for several versions: workers have one at a time."""
        versions = {version.id: version for version, _, _ in jobs}
        if len(versions) > 1:
            raise ClusterError(f"workers sample one version at a time, got {sorted(versions)!r}")
        if examples := [version.id for version in versions.values() if example_count(version)]:
            raise ClusterError(f"agent {examples[0]!r} has examples, and workers have no pool; set examples = 0")
        indices: dict[str, int] = {}
        starts = [None] * len(jobs) if branch_points is None else branch_points
        works = [
            WorkItem(
                RolloutRequest(task, number, indices.setdefault(task.id, len(indices)), start),
                purpose.key,
                version.id,
                purpose.seed,
                *purpose.sampling_of(version),
                fixes_sampling=purpose.temperature is not None,
            )
            for (version, task, number), start in zip(jobs, starts, strict=True)
        ]
        with self._lock:
            weights_hash = self._hand_over(next(iter(versions.values())), purpose) if versions else ""
            results = run_on_workers(works, self._workers, retries=self._retries)
        self._lost_rollouts.append(sum(results.losses.values()))
        self.lost_workers += results.reasons
        for trajectory in results.trajectories:
            if trajectory.model_version not in ("", weights_hash):
                raise ClusterError(
                    f"trajectory {trajectory.id!r} was sampled by weights {trajectory.model_version!r} instead of "
                    f"{weights_hash!r}"
                )
        return results.trajectories

    def _hand_over(self, version: AgentVersion, purpose: Purpose) -> str:
        """Hands the version's weights over; returns their hash."""
        engine = self._setting(version, purpose).model
        assert isinstance(engine, WorkersModel)
        engine.refresh()
        return engine.version
