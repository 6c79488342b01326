"""Distributes rollouts over workers, and retries those whose worker was lost.

Each worker has its own engine and environments and runs its part concurrently. A rollout's random numbers depend
on its seed alone, so any worker gives the tokens of a single process (up to rounding, see ``rollout``). Rollouts
finished before a worker was lost count; unfinished ones are distributed again among all workers. In the last retry
each runs alone, so that one that kills its worker loses no other. A rollout lost then is recorded as
``environment_error``. No Ray here: see ``ray_workers``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from upturn.agents.rollout import RolloutRequest, Setting, rollout_id, rollout_seed
from upturn.agents.stage import FAILED_OBSERVATION
from upturn.config import FULL_DISTRIBUTION, SamplingSettings
from upturn.environments import Environment
from upturn.records import Task, Trajectory, record


@record
class WorkItem:
    """One rollout as sent to a worker: plain data only."""

    request: RolloutRequest
    key: str
    """``Setting.key``"""
    agent_version: str
    """``AgentVersion.id``"""
    seed: int
    """``Setting.seed``"""
    temperature: float = 1.0
    sampling: SamplingSettings = FULL_DISTRIBUTION
    fixes_sampling: bool = False
    """``Setting.fixes_sampling``"""

    @property
    def id(self) -> str:
        """Id of its trajectory."""
        return rollout_id(self.request, self.key, self.agent_version)


class WorkerRuntime(Protocol):
    """A worker's engine and environments. Created in the worker's process, used on its event loop only."""

    def load_weights(self, folder: str, version: str) -> str:
        """Loads the weights in a folder for further sampling; returns their hash, which should be ``version``."""

    def prepare(self, items: Sequence[WorkItem]) -> None:
        """Called before these items run: clears caches of earlier ones."""

    def setting(self, item: WorkItem) -> Setting:
        """The setting with this worker's agent and model."""

    def environment(self, task: Task) -> Environment:
        """A new environment."""


MakeRuntime: TypeAlias = Callable[[], WorkerRuntime]
"""Sent to each worker and called there once; must be picklable."""


class LostWorker(NamedTuple):
    """A worker that was lost, with its unfinished rollouts."""

    worker: int
    reason: str


class WorkerPool(Protocol):
    """Workers. One caller at a time."""

    @property
    def size(self) -> int:
        """Number of workers, including lost ones that will be replaced."""

    def load_weights(self, folder: str, version: str) -> None:
        """Loads weights in all workers, also in later replacements. Raises ClusterError."""

    def run(self, parts: Sequence[Sequence[WorkItem]]) -> Iterator[Trajectory | LostWorker]:
        """Runs part i on worker i; yields finished rollouts and lost workers, in any order.

        Replaces workers that were lost before. Raises ClusterError when it cannot, and for errors outside a
        rollout.
        """


class WorkerResults(NamedTuple):
    """The trajectories of all items, and the workers that were lost."""

    trajectories: list[Trajectory]
    """In the order of the items."""
    losses: Mapping[str, int]
    """By trajectory id, how often the rollout was lost with its worker; never 0."""
    reasons: tuple[str, ...]
    """For each lost worker, in order."""


def run_on_workers(
    items: Sequence[WorkItem],
    pool: WorkerPool,
    *,
    retries: int = 2,
    on_finish: Callable[[Trajectory], None] | None = None,
) -> WorkerResults:
    """All trajectories; rollouts lost ``retries`` + 1 times end with ``environment_error`` and the reason.

    ``on_finish`` is called with each as it arrives, with those of lost rollouts last.
    """
    if retries < 0:
        raise ValueError(f"retries must be 0 or more, got {retries!r}")
    finished: dict[str, Trajectory] = {}
    losses: dict[str, int] = {}
    reasons: list[str] = []

    def store(trajectory: Trajectory) -> None:
        finished[trajectory.id] = trajectory
        if on_finish is not None:
            on_finish(trajectory)

    pending = list(items)
    for tries in range(retries + 1):
        is_last = tries == retries > 0
        for parts in _one_per_worker(pending, pool.size) if is_last else [split_evenly(pending, pool.size)]:
            for result in pool.run(parts):
                if isinstance(result, LostWorker):
                    reasons.append(result.reason)
                else:
                    store(result)
        pending = [item for item in pending if item.id not in finished]
        losses.update({item.id: tries + 1 for item in pending})
        if not pending:
            break
    for item in pending:
        store(_lost_trajectory(item, f"its worker was lost {retries + 1} times, at last: {reasons[-1]}"))
    return WorkerResults([finished[item.id] for item in items], losses, tuple(reasons))


def split_evenly(items: Sequence[WorkItem], workers: int) -> list[Sequence[WorkItem]]:
    """As many parts as workers (or items, if fewer); sizes differ by at most one.

    Neighbours stay together: rollouts of one task share the computation of its prompt.
    """
    parts = min(workers, len(items))
    ends = [len(items) * (part + 1) // parts for part in range(parts)]
    return [items[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _one_per_worker(items: Sequence[WorkItem], workers: int) -> Iterator[list[Sequence[WorkItem]]]:
    """One item per worker at a time."""
    for start in range(0, len(items), workers):
        yield [[item] for item in items[start : start + workers]]


def _lost_trajectory(item: WorkItem, reason: str) -> Trajectory:
    return Trajectory(
        id=item.id,
        task_id=item.request.task.id,
        agent_version=item.agent_version,
        turns=(),
        final_observation=FAILED_OBSERVATION,
        outcome="environment_error",
        origin="sampled",
        attempt=item.request.number,
        seed=rollout_seed(item.request, item.seed),
        temperature=item.temperature,
        error=f"ClusterError: {reason}",
        sampling=item.sampling.as_parameters(),
    )
