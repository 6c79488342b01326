"""Episodes: the unit in which traffic is assigned to an arm, and so the unit of every statistical verdict.

All tasks of an episode are served by one version of an agent. A task without an episode is an episode of one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from upturn.config import CanarySettings
from upturn.errors import ReleaseError
from upturn.records import Arm, Decision, Evaluation, Release


class Served(NamedTuple):
    """One task served while a canary ran."""

    decision: Decision
    evaluation: Evaluation | None
    """None means not judged. An evaluation with the verdict ``missing`` counts the same."""


class Awaited(NamedTuple):
    """A served task whose outcome may still arrive."""

    served: Served
    decided_at: float
    """Seconds on the caller's clock."""


@dataclass(frozen=True, slots=True)
class Episode:
    """What one episode came to. Raises ValueError for counts that cannot be."""

    id: str
    """Of the episode, or of the decision of a task without one."""
    arm: Arm
    share: float
    """Probability with which the episode was assigned to the candidate, in (0, 1]; 1 during a watch."""
    tasks: int = 1
    """Judged tasks and missing ones."""
    successes: int = 0
    missing: int = 0
    """Tasks without an evaluation."""
    violations: int = 0
    """Judged tasks with a safety cost."""
    hard_violations: int = 0
    """Judged tasks with a cost that is a hard constraint."""
    has_costs: bool = False
    """True where an evaluation names a cost component at all."""

    def __post_init__(self) -> None:
        judged = self.tasks - self.missing
        counts = (self.successes, self.violations, self.hard_violations)
        if self.tasks < 1 or self.missing < 0 or not 0.0 < self.share <= 1.0:
            raise ValueError(f"an episode has a share in (0, 1], a task or more and no count below 0: {self!r}")
        if any(not 0 <= count <= judged for count in counts):
            raise ValueError(f"successes and violations lie in 0..judged tasks: {self!r}")


def episodes_of(release: Release, served: Iterable[Served], settings: CanarySettings) -> tuple[Episode, ...]:
    """The episodes of a release's served tasks, in the order of their first task; other releases' tasks are
    skipped.

    An episode counts once: pass all of its tasks together, once it has ended."""
    groups: dict[str, list[Served]] = {}
    for item in served:
        if _belongs(item.decision, release):
            groups.setdefault(_episode_id(item.decision), []).append(item)
    return tuple(_episode(name, release, items, settings) for name, items in groups.items())


def split_settled(
    awaited: Sequence[Awaited], *, now: float, delay_seconds: float
) -> tuple[list[Served], list[Awaited]]:
    """The tasks whose outcome is final, and those still waiting, both in the order of their decisions.

    An outcome is pending until it arrives or ``delay_seconds`` have passed since its decision; then it is missing.
    An episode is final when all of its tasks are. Evidence is taken in the order of decisions, so that an arm whose
    outcomes arrive sooner gains nothing by it: everything behind the first pending episode waits.
    """
    pending = {
        _episode_id(item.served.decision)
        for item in awaited
        if item.served.evaluation is None and now - item.decided_at < delay_seconds
    }
    ids = [_episode_id(item.served.decision) for item in awaited]
    cut = next((index for index, name in enumerate(ids) if name in pending), len(awaited))
    blocked = set(ids[cut:])
    settled = [item.served for item, name in zip(awaited, ids, strict=True) if name not in blocked]
    waiting = [item for item, name in zip(awaited, ids, strict=True) if name in blocked]
    return settled, waiting


def _episode_id(decision: Decision) -> str:
    return decision.id if decision.episode is None else f"{decision.tenant}/{decision.episode}"


def _belongs(decision: Decision, release: Release) -> bool:
    """True for tasks of the canary, and during its watch for all that the candidate serves."""
    if release.state == "watch":
        return decision.chosen == release.candidate
    return decision.release == release.id


def _episode(name: str, release: Release, items: Sequence[Served], settings: CanarySettings) -> Episode:
    decision = items[0].decision
    judged = [
        item.evaluation for item in items if item.evaluation is not None and item.evaluation.verdict != "missing"
    ]
    return Episode(
        name,
        "candidate" if decision.chosen == release.candidate else "control",
        1.0 if release.state == "watch" else _candidate_share(release, decision),
        tasks=len(items),
        successes=sum(evaluation.is_success for evaluation in judged),
        missing=len(items) - len(judged),
        violations=sum(_has_cost(evaluation, settings.safety_costs) for evaluation in judged),
        hard_violations=sum(_has_cost(evaluation, settings.hard_costs) for evaluation in judged),
        has_costs=any(evaluation.costs for evaluation in judged),
    )


def _has_cost(evaluation: Evaluation, names: Iterable[str]) -> bool:
    return any(evaluation.costs.get(name, 0.0) > 0 for name in names)


def _candidate_share(release: Release, decision: Decision) -> float:
    """The probability of the candidate given the agent, from the decision's own alternatives."""
    chances = {option.agent_version: option.probability for option in decision.alternatives}
    candidate, incumbent = chances.get(release.candidate, 0.0), chances.get(release.incumbent, 0.0)
    if not candidate > 0 or not incumbent > 0:
        raise ReleaseError(
            f"decision {decision.id!r} gave {release.candidate} a probability of {candidate} and "
            f"{release.incumbent} {incumbent}; both must be above 0 for the release to learn from it"
        )
    return candidate / (candidate + incumbent)
