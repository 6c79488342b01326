"""Episodes: the unit in which traffic is assigned to an arm, and so the unit of every statistical verdict.

All tasks of an episode are served by one version of an agent. A task without an episode is an episode of one.
"""

import json
import math
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
    """None means not judged. An evaluation with the verdict ``missing`` counts the same, but for its costs."""


class Awaited(NamedTuple):
    """A served task whose outcome may still arrive."""

    served: Served
    decided_at: float
    """Seconds on the caller's clock."""


class Settled(NamedTuple):
    """Served tasks by the state of their outcomes, each list in the order of decisions."""

    final: list[Served]
    """Tasks of episodes that have ended and whose outcomes are final."""
    waiting: list[Awaited]
    """Pass them again, with what has arrived since."""
    late: list[Served]
    """Tasks decided after their episode had ended; they count in neither arm."""


@dataclass(frozen=True, slots=True)
class Episode:
    """The outcomes of one episode. Raises ValueError for impossible counts."""

    id: str
    """Of the episode, or of the decision of a task without one."""
    arm: Arm
    share: float
    """Probability with which the episode was assigned to the candidate, in (0, 1]; 1 during a watch, when there is
    no control."""
    tasks: int = 1
    """Judged tasks and missing ones."""
    successes: int = 0
    missing: int = 0
    """Tasks without an evaluation."""
    violations: int = 0
    """Tasks with a safety cost."""
    hard_violations: int = 0
    """Tasks with a cost that is a hard constraint."""
    has_costs: bool = False
    """True where an evaluation reports a safety cost, which may be 0."""
    unreported: int | None = None
    """Tasks whose safety costs are unknown; None = the missing ones."""
    hard_unreported: int | None = None
    """Tasks whose hard costs are unknown; None = the missing ones."""
    repeats: int = 0
    """Further outcomes of the same decisions, which were dropped."""

    def __post_init__(self) -> None:
        if self.tasks < 1 or self.missing < 0 or not 0.0 < self.share <= 1.0:
            raise ValueError(f"an episode has a share in (0, 1], a task or more and no count below 0: {self!r}")
        if self.arm == "control" and self.share == 1.0:
            raise ValueError(f"an episode with share 1 cannot be in the control arm: {self!r}")
        unknown = (self.missing, *self.unknown)
        counts = (self.successes, self.violations, self.hard_violations)
        if any(not 0 <= count <= self.tasks - gap for count, gap in zip(counts, unknown, strict=True)):
            raise ValueError(f"successes and violations lie in 0..tasks with a known outcome: {self!r}")

    @property
    def unknown(self) -> tuple[int, int]:
        """Tasks with unknown safety costs, and with unknown hard costs."""
        return (
            self.missing if self.unreported is None else self.unreported,
            self.missing if self.hard_unreported is None else self.hard_unreported,
        )


def episodes_of(release: Release, served: Iterable[Served], settings: CanarySettings) -> tuple[Episode, ...]:
    """The episodes of a release's served tasks, in the order of their first task; other releases' tasks are
    skipped.

    An episode counts once: pass all of its tasks together, once it has ended (``split_settled``). Of several
    outcomes of one decision the first that is judged counts. Raises ReleaseError for a task of the release that
    neither version served, and for an episode that both served."""
    groups: dict[str, list[Served]] = {}
    for item in served:
        if _belongs(item.decision, release):
            groups.setdefault(episode_id(item.decision), []).append(item)
    return tuple(_episode(name, release, items, settings) for name, items in groups.items())


def split_settled(
    awaited: Sequence[Awaited], *, now: float, delay_seconds: float, window_seconds: float
) -> Settled:
    """Separates the tasks whose outcomes are final from those that wait; for traffic that is served one by one.

    An episode ends ``window_seconds`` after its first decision, whatever its outcomes, and a task without an
    episode at once. An outcome is pending until it arrives or ``delay_seconds`` have passed since its decision;
    then it is missing. Evidence is taken in the order of the episodes' first decisions: everything behind the first
    episode that is open or has a pending outcome waits, at most ``window_seconds + delay_seconds`` after that
    decision. So neither the number of an episode's tasks nor the order of arrival depends on outcomes.
    """
    started: dict[str, float] = {}
    for item in awaited:
        started.setdefault(episode_id(item.served.decision), item.decided_at)

    def is_late(item: Awaited) -> bool:
        decision = item.served.decision
        window = 0.0 if decision.episode is None else window_seconds
        return item.decided_at > started[episode_id(decision)] + window

    def is_open(item: Awaited) -> bool:
        is_running = item.served.decision.episode is not None and (
            now <= started[episode_id(item.served.decision)] + window_seconds
        )
        return is_running or (item.served.evaluation is None and now - item.decided_at < delay_seconds)

    counted = [item for item in awaited if not is_late(item)]
    opened = {episode_id(item.served.decision) for item in counted if is_open(item)}
    order = list(started)
    cut = next((index for index, name in enumerate(order) if name in opened), len(order))
    blocked = set(order[cut:])
    return Settled(
        [item.served for item in counted if episode_id(item.served.decision) not in blocked],
        [item for item in awaited if episode_id(item.served.decision) in blocked],
        [item.served for item in awaited if is_late(item) and episode_id(item.served.decision) not in blocked],
    )


def episode_id(decision: Decision) -> str:
    """Returns the id of a decision's episode, for all tenants; without one, the decision is an episode."""
    return decision.id if decision.episode is None else json.dumps([decision.tenant, decision.episode])


def _belongs(decision: Decision, release: Release) -> bool:
    """True for tasks of the canary, and during its watch for all that the candidate serves."""
    if release.state == "watch":
        return decision.chosen == release.candidate
    return decision.release == release.id


def _episode(name: str, release: Release, items: Sequence[Served], settings: CanarySettings) -> Episode:
    decision = items[0].decision
    versions = {item.decision.chosen for item in items}
    if len(versions) > 1 or not versions <= {release.candidate, release.incumbent}:
        raise ReleaseError(
            f"episode {name!r} of release {release.id!r} was served by {', '.join(sorted(versions))}; all of its "
            f"tasks must be served by {release.candidate!r}, or all by {release.incumbent!r}"
        )
    outcomes: dict[str, Evaluation | None] = {}
    for item in items:
        if outcomes.get(item.decision.id) is None:
            outcomes[item.decision.id] = item.evaluation
    evaluations = [evaluation for evaluation in outcomes.values() if evaluation is not None]
    judged = [evaluation for evaluation in evaluations if evaluation.verdict != "missing"]
    safety = [_costs(evaluation, settings.safety_costs) for evaluation in evaluations]
    hard = [_costs(evaluation, settings.hard_costs) for evaluation in evaluations]
    return Episode(
        name,
        "candidate" if decision.chosen == release.candidate else "control",
        1.0 if release.state == "watch" else _candidate_share(release, decision),
        tasks=len(outcomes),
        successes=sum(evaluation.is_success for evaluation in judged),
        missing=len(outcomes) - len(judged),
        violations=safety.count(True),
        hard_violations=hard.count(True),
        has_costs=len(safety) > safety.count(None),
        unreported=len(outcomes) - len(safety) + safety.count(None),
        hard_unreported=len(outcomes) - len(hard) + hard.count(None) if settings.hard_costs else 0,
        repeats=len(items) - len(outcomes),
    )


def _costs(evaluation: Evaluation, names: Iterable[str]) -> bool | None:
    """Whether one of the costs is above 0; None = it reports none of them. NaN counts as not reported."""
    reported = [cost for name in names if not math.isnan(cost := evaluation.costs.get(name, math.nan))]
    return any(cost > 0 for cost in reported) if reported else None


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
