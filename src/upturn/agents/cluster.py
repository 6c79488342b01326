"""Distributes rollouts over workers, and retries those whose worker was lost.

Each worker has its own engine and environments and runs its part concurrently. A rollout's random numbers depend
on its seed alone, so any worker gives the tokens of a single process (up to rounding, see ``rollout``). Rollouts
finished before a worker was lost count; unfinished ones are distributed again among all workers, and in the last
retry each runs alone, so that one that kills its worker takes no other with it. A rollout lost then is recorded as
``environment_error``. No Ray here: see ``ray_workers``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from upturn.agents.rollout import Attempt, Setting, attempt_id, attempt_seed
from upturn.environments import Environment
from upturn.records import Observation, Task, Trajectory, record


@record
class WorkItem:
    """One rollout as sent to a worker: plain data only."""

    attempt: Attempt
    key: str
    """``Setting.key``"""
    agent_version: str
    """``AgentVersion.id``"""
    seed: int
    """``Setting.seed``"""
    temperature: float = 1.0

    @property
    def id(self) -> str:
        """Id of its trajectory."""
        return attempt_id(self.attempt, self.key, self.agent_version)


class WorkerRuntime(Protocol):
    """A worker's engine and environments. Created in the worker's process, used on its event loop only."""

    def load_weights(self, folder: str, version: str) -> str:
        """Loads the weights in a folder for further sampling; returns their hash, which should be ``version``."""

    def prepare(self, works: Sequence[WorkItem]) -> None:
        """Called before these items run: clears caches of earlier ones."""

    def setting(self, work: WorkItem) -> Setting:
        """The setting with this worker's agent and model."""

    def environment(self, task: Task) -> Environment:
        """A new environment."""


MakeRuntime: TypeAlias = Callable[[], WorkerRuntime]
"""Sent to each worker and called there once; must be picklable."""


class Finished(NamedTuple):
    """A worker finished a rollout."""

    trajectory: Trajectory


class Lost(NamedTuple):
    """A worker is lost, with its unfinished rollouts."""

    worker: int
    reason: str


class WorkerPool(Protocol):
    """Workers. One caller at a time."""

    @property
    def size(self) -> int:
        """How many they are, those that have to be replaced included."""

    def load_weights(self, folder: str, version: str) -> None:
        """Loads weights in all workers, also in later replacements. Raises ClusterError."""

    def run(self, parts: Sequence[Sequence[WorkItem]]) -> Iterator[Finished | Lost]:
        """Runs part i on worker i; yields in any order, and ends when each worker has finished or is lost.

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
    works: Sequence[WorkItem],
    pool: WorkerPool,
    *,
    retries: int = 2,
    on_finish: Callable[[Trajectory], None] | None = None,
) -> WorkerResults:
    """All trajectories; rollouts lost ``retries`` + 1 times end with ``environment_error`` and the reason.

    ``on_finish`` is called with each as it arrives; rollouts that were given up come last.
    """
    if retries < 0:
        raise ValueError(f"retries must be 0 or more, got {retries!r}")
    finished: dict[str, Trajectory] = {}
    losses: dict[str, int] = {}
    reasons: list[str] = []

    def keep(trajectory: Trajectory) -> None:
        finished[trajectory.id] = trajectory
        if on_finish is not None:
            on_finish(trajectory)

    pending = list(works)
    for tries in range(retries + 1):
        is_last = tries == retries > 0
        for parts in _alone(pending, pool.size) if is_last else [split_evenly(pending, pool.size)]:
            for event in pool.run(parts):
                if isinstance(event, Finished):
                    keep(event.trajectory)
                else:
                    reasons.append(event.reason)
        pending = [work for work in pending if work.id not in finished]
        for work in pending:
            losses[work.id] = tries + 1
        if not pending:
            break
    for work in pending:
        keep(_given_up(work, f"its worker was lost {retries + 1} times, at last: {reasons[-1]}"))
    return WorkerResults([finished[work.id] for work in works], losses, tuple(reasons))


def split_evenly(works: Sequence[WorkItem], workers: int) -> list[Sequence[WorkItem]]:
    """As many parts as workers (or items, if fewer); sizes differ by at most one.

    Neighbours stay together: rollouts of one task share the computation of its prompt.
    """
    parts = min(workers, len(works))
    ends = [len(works) * (part + 1) // parts for part in range(parts)]
    return [works[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _alone(works: Sequence[WorkItem], workers: int) -> Iterator[list[Sequence[WorkItem]]]:
    """One item per worker at a time."""
    for start in range(0, len(works), workers):
        yield [[work] for work in works[start : start + workers]]


def _given_up(work: WorkItem, why: str) -> Trajectory:
    return Trajectory(
        id=work.id,
        task_id=work.attempt.task.id,
        agent_version=work.agent_version,
        turns=(),
        final_observation=Observation(text="", code="environment_error"),
        outcome="environment_error",
        origin="sampled",
        attempt=work.attempt.number,
        seed=attempt_seed(work.attempt, work.seed),
        temperature=work.temperature,
        error=f"ClusterError: {why}",
    )
