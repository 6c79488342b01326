"""Rollouts by the workers of a cluster: they sample with the weights that this process trains.

``PolicyWorkerFactory`` is sent to each worker and builds there what ``PolicyWorker`` builds here. ``RayRuntime``
replaces an ``AgentRuntime``: it hands over the present weights, then distributes its rollouts over the workers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from upturn.agents import (
    BranchPoint,
    RolloutRequest,
    Setting,
    WorkerPool,
    WorkItem,
    build,
    run_on_workers,
)
from upturn.config import Limits
from upturn.environments import Environment, EnvironmentKit, resolve_kit
from upturn.errors import ClusterError
from upturn.loop.agent_runtime import AgentRuntime, Purpose, calls_of
from upturn.loop.rollouts.policy_worker import PolicyWorker
from upturn.loop.rollouts.weight_sync import WeightSync
from upturn.records import AgentVersion, Task, Trajectory

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class PolicyWorkerFactory:
    """Builds a worker's runtime: a kit, and a version with its engine and weights."""

    kit: str
    """Registered name or ``module:factory``, importable where the worker runs."""
    limits: Limits
    version: AgentVersion
    threads: int = 1
    """Torch threads of one worker."""

    def __call__(self) -> "PolicyWorkerRuntime":
        """Called in the worker's process."""
        return PolicyWorkerRuntime(
            AgentRuntime(resolve_kit(self.kit), self.limits), self.version, threads=self.threads
        )


class PolicyWorkerRuntime:
    """A ``WorkerRuntime`` with one version."""

    def __init__(self, runtime: AgentRuntime, version: AgentVersion, *, threads: int = 1) -> None:
        """``threads``: of torch."""
        self._threads = threads
        self._worker = PolicyWorker(runtime, version)
        self._agent = build(version, limits=runtime.limits, renderer=self._worker.renderer)

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
        )

    def environment(self, task: Task) -> Environment:
        """A new environment of the kit."""
        return self._worker.runtime.kit.environment(task)


class RayRuntime(AgentRuntime):
    """A runtime whose rollouts run on workers, for one version in training. Not thread-safe."""

    def __init__(
        self, kit: EnvironmentKit, limits: Limits, workers: WorkerPool, folder: Path, *, retries: int = 2
    ) -> None:
        """``folder``: of the weights that are handed over, see ``WeightSync``. ``retries``: see
        ``run_on_workers``."""
        super().__init__(kit, limits)
        self._workers = workers
        self._folder = folder
        self._retries = retries
        self._sync: WeightSync | None = None
        self.lost_rollouts = 0
        """Rollouts lost with their worker so far, counted once per loss."""
        self.lost_workers: list[str] = []
        """Reasons of the losses of workers so far."""

    def follow(self, model: "PreTrainedModel", *, companions: Path | None = None) -> None:
        """Makes further rollouts use this model's weights, as they are when the rollouts start."""

        def load(path: Path, version: str) -> None:
            self._workers.load_weights(str(path), version)

        self._sync = WeightSync(model, load, self._folder, companions=companions)

    def rollout(
        self,
        jobs: Sequence[tuple[AgentVersion, Task, int]],
        purpose: Purpose,
        branch_points: Sequence[BranchPoint] | None = None,
    ) -> list[Trajectory]:
        """See ``AgentRuntime.rollout``. Raises ClusterError for several versions: workers have one."""
        versions = {version.id for version, _, _ in jobs}
        if self._sync is None or len(versions) > 1:
            raise ClusterError(
                f"workers sample one version in training, the one that follow() was called for; got "
                f"{sorted(versions)!r}: use an AgentRuntime for other versions"
            )
        weights_hash = self._sync.push()
        indices: dict[str, int] = {}
        starts = [None] * len(jobs) if branch_points is None else branch_points
        works = [
            WorkItem(
                RolloutRequest(task, number, indices.setdefault(task.id, len(indices)), start),
                purpose.key,
                version.id,
                purpose.seed,
                *purpose.sampling_of(version),
            )
            for (version, task, number), start in zip(jobs, starts, strict=True)
        ]
        results = run_on_workers(works, self._workers, retries=self._retries)
        self.lost_rollouts += sum(results.losses.values())
        self.lost_workers += results.reasons
        for trajectory in results.trajectories:
            if trajectory.model_version not in ("", weights_hash):
                raise ClusterError(
                    f"trajectory {trajectory.id!r} was sampled by weights {trajectory.model_version!r} instead of "
                    f"{weights_hash!r}"
                )
        return results.trajectories
