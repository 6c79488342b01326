"""Attempts dealt out over workers elsewhere: who plays what, and what happens to attempts whose worker was lost.

Each worker has an engine and environments of its own and plays its part all at once. An attempt's draws depend on
its seed alone, so it does not matter who plays it: the tokens are those of one process (but for rounding, see
``rollout``). What a worker finished before it was lost counts; what it had begun is dealt out again among all
workers, and the last time each such attempt is played alone, so that one that kills its worker takes no other
along. One that is lost then too is recorded as broken. No Ray here: see ``ray_crew``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from upturn.agents.rollout import Attempt, Setting, attempt_id, attempt_seed
from upturn.environments import Environment
from upturn.records import Observation, Task, Trajectory, record


@record
class Work:
    """One attempt as it is sent: all that makes it this attempt, nothing that lives."""

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
        """Of the trajectory that it becomes."""
        return attempt_id(self.attempt, self.key, self.agent_version)


class Workplace(Protocol):
    """What a worker plays with. Made in the worker's process, and used on its event loop only."""

    def take(self, folder: str, version: str) -> str:
        """Samples with the weights in a folder from now on; returns their hash, which should be ``version``."""

    def begin(self, works: Sequence[Work]) -> None:
        """Called before these are played: forgets what earlier ones left in caches."""

    def setting(self, work: Work) -> Setting:
        """The setting with the agent and the model that live here."""

    def environment(self, task: Task) -> Environment:
        """A new environment."""


OpenWorkplace: TypeAlias = Callable[[], Workplace]
"""Sent to each worker and called there once; has to be picklable."""


class Finished(NamedTuple):
    """A worker finished an attempt."""

    trajectory: Trajectory


class Lost(NamedTuple):
    """A worker is gone, with what it had not finished."""

    worker: int
    reason: str


class Crew(Protocol):
    """Workers. One caller at a time."""

    @property
    def size(self) -> int:
        """How many they are, those that have to be replaced included."""

    def take(self, folder: str, version: str) -> None:
        """Gives all workers weights, also those that replace others later. Raises ClusterError."""

    def play(self, parts: Sequence[Sequence[Work]]) -> Iterator[Finished | Lost]:
        """Part i is played by worker i; yields in any order, and ends when each worker has ended or is lost.

        Replaces workers that were lost before. Raises ClusterError when it cannot, and for errors that are not an
        attempt's own.
        """


class Played(NamedTuple):
    """What came of attempts that were dealt out."""

    trajectories: list[Trajectory]
    """In the order of the works."""
    losses: Mapping[str, int]
    """By trajectory id, how often the attempt was lost with its worker; those that never were are left out."""
    reasons: tuple[str, ...]
    """Of each worker that was lost, in order."""


def play(
    works: Sequence[Work],
    crew: Crew,
    *,
    retries: int = 2,
    on_finish: Callable[[Trajectory], None] | None = None,
) -> Played:
    """All trajectories; those of attempts lost ``retries`` + 1 times end with ``environment_error`` and say so.

    ``on_finish`` is called with each as it arrives, those that were given up last.
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
        for parts in _alone(pending, crew.size) if is_last else [deal(pending, crew.size)]:
            for event in crew.play(parts):
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
    return Played([finished[work.id] for work in works], losses, tuple(reasons))


def deal(works: Sequence[Work], workers: int) -> list[Sequence[Work]]:
    """As many parts as there are workers, or works if those are fewer; sizes differ by one at most.

    Neighbours stay together: attempts at one task share its prompt's computation.
    """
    parts = min(workers, len(works))
    ends = [len(works) * (part + 1) // parts for part in range(parts)]
    return [works[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _alone(works: Sequence[Work], workers: int) -> Iterator[list[Sequence[Work]]]:
    """One work for each worker at a time."""
    for start in range(0, len(works), workers):
        yield [[work] for work in works[start : start + workers]]


def _given_up(work: Work, why: str) -> Trajectory:
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
