"""A version in training that workers of a cluster sample from: they have its weights, this process its training.

``OpenPolicyWorker`` is sent to each worker and builds there what ``PolicyWorker`` builds here. ``RayRuntime``
stands where a ``AgentRuntime`` would: its attempts are dealt out, with the present weights handed over before.
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
    WorkerResults,
    WorkItem,
    build,
    run_on_workers,
    temperature,
)
from upturn.config import Limits
from upturn.environments import Environment, EnvironmentKit, resolve_kit
from upturn.errors import ClusterError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.rollouts.policy_worker import PolicyWorker
from upturn.loop.rollouts.weight_sync import CrewReceiver, Handover
from upturn.records import AgentVersion, Task, Trajectory

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class OpenPolicyWorker:
    """Makes a worker's workplace: a kit, and a version with engine and weights."""

    kit: str
    """Registered name or ``module:factory``, importable where the worker runs."""
    limits: Limits
    version: AgentVersion
    threads: int = 1
    """Of torch, in one worker."""

    def __call__(self) -> "TraineeWorkplace":
        """In the worker's process."""
        return TraineeWorkplace(
            AgentRuntime(resolve_kit(self.kit), self.limits), self.version, threads=self.threads
        )


class TraineeWorkplace:
    """A ``WorkerRuntime`` with one version."""

    def __init__(self, runtime: AgentRuntime, version: AgentVersion, *, threads: int = 1) -> None:
        """``threads``: of torch."""
        self._threads = threads
        self._worker = PolicyWorker(runtime, version)
        self._limits = runtime.limits
        self._agent = build(version, limits=runtime.limits, renderer=self._worker.renderer)

    def load_weights(self, folder: str, version: str) -> str:
        """Raises ModelError for a folder that is missing or damaged; the weights stay as they were then."""
        from upturn.training.distributed import restore_weights, weight_tensors
        from upturn.training.runs import load_version

        if self._worker.engine.version != version:
            restore_weights(self._worker.model, weight_tensors(load_version(Path(folder))))
            self._worker.engine.refresh()
        return self._worker.engine.version

    def prepare(self, works: Sequence[WorkItem]) -> None:  # noqa: ARG002
        """Empties the engine's caches, and sets up torch in the thread that plays: each thread has its own."""
        import torch

        torch.set_num_threads(self._threads)
        torch.set_flush_denormal(True)  # as in training's own process
        self._worker.engine.refresh()

    def setting(self, work: WorkItem) -> Setting:
        """With this worker's agent and engine."""
        return Setting(
            key=work.key,
            agent=self._agent,
            agent_version=work.agent_version,
            model=self._worker.engine,
            limits=self._limits,
            seed=work.seed,
            temperature=work.temperature,
        )

    def environment(self, task: Task) -> Environment:
        """The kit's."""
        return self._worker.runtime.kit.environment(task)


class RayRuntime(AgentRuntime):
    """A runtime whose attempts a crew plays, for one version in training. Not thread-safe."""

    def __init__(
        self, kit: EnvironmentKit, limits: Limits, crew: WorkerPool, folder: Path, *, retries: int = 2
    ) -> None:
        """``folder``: where weights are handed over, see ``Handover``. ``retries``: see ``run_on_workers``."""
        super().__init__(kit, limits)
        self._crew = crew
        self._folder = folder
        self._retries = retries
        self._handover: Handover | None = None
        self.lost_attempts = 0
        """So far, each as often as it was lost with its worker."""
        self.lost_workers: list[str] = []
        """Why workers were lost, so far."""

    def follow(self, model: "PreTrainedModel", *, companions: Path | None = None) -> None:
        """Attempts are made with this model's weights from now on, as they are when the attempts begin."""
        self._handover = Handover(model, CrewReceiver(self._crew), self._folder, companions=companions)

    def rollout(
        self,
        jobs: Sequence[tuple[AgentVersion, Task, int]],
        purpose: Purpose,
        branch_points: Sequence[BranchPoint] | None = None,
    ) -> list[Trajectory]:
        """See ``AgentRuntime.rollout``. Raises ClusterError for several versions: workers have one."""
        versions = {version.id for version, _, _ in jobs}
        if self._handover is None or len(versions) > 1:
            raise ClusterError(
                f"workers play one version in training, whose model follow() names; asked for {sorted(versions)!r}:"
                " use a AgentRuntime for other versions"
            )
        hash_given = self._handover.give()
        indices: dict[str, int] = {}
        started = [None] * len(jobs) if branch_points is None else branch_points
        works = [
            WorkItem(
                RolloutRequest(task, number, indices.setdefault(task.id, len(indices)), beginning),
                purpose.key,
                version.id,
                purpose.seed,
                temperature(version) if purpose.temperature is None else purpose.temperature,
            )
            for (version, task, number), beginning in zip(jobs, started, strict=True)
        ]
        played = run_on_workers(works, self._crew, retries=self._retries)
        self._count(played)
        other = next((each for each in played.trajectories if each.model_version not in {"", hash_given}), None)
        if other is not None:
            raise ClusterError(
                f"trajectory {other.id!r} comes from weights {other.model_version!r}, {hash_given!r} were given"
            )
        return played.trajectories

    def _count(self, played: WorkerResults) -> None:
        self.lost_attempts += sum(played.losses.values())
        self.lost_workers += played.reasons
