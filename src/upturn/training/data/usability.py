"""Which algorithms stored trajectories can train, and why not others. No torch here.

A policy gradient needs the sampler's log-probs: without them there is no probability ratio. Other trajectories can
train by imitation or by preference only.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from upturn.records import Task, Trajectory
from upturn.training.advantage import ScoredGroup, ScoredTrajectory, group_by_task
from upturn.training.row import sampling_problem, written_count

Use = Literal["sft", "dpo", "kto", "policy_gradient"]
ExclusionReason = Literal[
    "no_tokens", "rendered", "temperature", "no_logprobs", "stale", "unknown_weights", "alone"
]

EXCLUSION_REASONS: Mapping[ExclusionReason, str] = {
    "no_tokens": "no written tokens are stored; render their turns first",
    "rendered": "no local model sampled them, so there are no sampler log-probs",
    "temperature": "sampled greedily, or with another distribution than that of their log-probs",
    "no_logprobs": "sampled, but stored without sampler log-probs",
    "stale": "sampled by weights that are too old",
    "unknown_weights": "the weights that sampled them are not among the known versions",
    "alone": "the only usable trajectory of their task, so there is nothing to compare",
}
"""Descriptions for users."""


class Usability(NamedTuple):
    """The number of trajectories that an algorithm can use."""

    usable: int
    excluded: Mapping[ExclusionReason, int]
    """The other trajectories, by the first reason that applies, in the order of ``EXCLUSION_REASONS``."""


class Freshness(NamedTuple):
    """A limit on the age of the weights that sampled stored trajectories."""

    versions: Sequence[str]
    """Hashes of weights (``Trajectory.model_versions``), the newest last."""
    max_age: int
    """In versions; 0 = the newest only."""

    def exclusion_reason(self, trajectory: Trajectory) -> ExclusionReason | None:
        """Returns why the trajectory is too old; None = fresh enough."""
        if not set(trajectory.model_versions) <= set(self.versions):
            return "unknown_weights"
        return "stale" if self.age(trajectory) > self.max_age else None

    def age(self, trajectory: Trajectory) -> int:
        """Returns the age of the oldest tokens in versions; the weights must be known."""
        oldest = min(map(list(self.versions).index, trajectory.model_versions))
        return len(self.versions) - 1 - oldest


def count_usable(trajectories: Sequence[Trajectory], *, freshness: Freshness | None = None) -> dict[Use, Usability]:
    """Returns how many of the trajectories each algorithm can use, and why not the others.

    ``freshness``: for the policy gradient; None = no limit on age. Rewards are not considered: trajectories without
    a reward, or with equal ones, give a policy gradient and preferences no signal either."""

    def has_no_tokens(trajectory: Trajectory) -> ExclusionReason | None:
        return None if written_count(trajectory) else "no_tokens"

    single = _count(trajectories, has_no_tokens)
    pairs = _count(trajectories, has_no_tokens, needs_pairs=True)
    sampled = _count(trajectories, lambda trajectory: exclusion_reason(trajectory, freshness), needs_pairs=True)
    return {"sft": single, "dpo": pairs, "kto": single, "policy_gradient": sampled}


def describe_usability(usability: Mapping[Use, Usability]) -> list[str]:
    """Returns one line for each algorithm, by its command, followed by one for each reason of exclusion."""
    lines = []
    for use, (usable, excluded) in usability.items():
        command = "offline" if use == "policy_gradient" else use
        lines.append(f"{command} can train on {usable} of {usable + sum(excluded.values())} trajectories")
        lines += [f"  {count} left out: {EXCLUSION_REASONS[reason]}" for reason, count in excluded.items()]
    return lines


def exclusion_reason(trajectory: Trajectory, freshness: Freshness | None = None) -> ExclusionReason | None:
    """Returns why a policy gradient cannot use the trajectory; None = it can, given others to compare it with."""
    if not written_count(trajectory):
        return "no_tokens"
    if trajectory.origin != "sampled":
        return "rendered"
    if sampling_problem(trajectory) is not None:
        return "temperature"
    if any(
        len(row.sampling_logprobs or row.logprobs) != sum(span.stop - span.start for span in row.spans)
        for row in trajectory.rows
    ):
        return "no_logprobs"
    return None if freshness is None else freshness.exclusion_reason(trajectory)


def group_trajectories(scored: Iterable[tuple[Task, ScoredTrajectory]]) -> list[ScoredGroup]:
    """Returns a group for each task, in the order of the tasks' first trajectories.

    A task's successes and failures are in one group: equal outcomes alone would have no signal.
    """
    return [
        ScoredGroup(items[0][0], tuple(trajectory for _, trajectory in items))
        for items in group_by_task(scored, lambda item: item[0].id)
    ]


def _count(
    trajectories: Sequence[Trajectory],
    reason_of: Callable[[Trajectory], ExclusionReason | None],
    *,
    needs_pairs: bool = False,
) -> Usability:
    """``needs_pairs``: a trajectory needs another usable one of its task."""
    reasons = list(map(reason_of, trajectories))
    tasks = [trajectory.task_id for trajectory in trajectories]
    usable = Counter(task for task, reason in zip(tasks, reasons, strict=True) if reason is None)
    if needs_pairs:
        reasons = [
            "alone" if reason is None and usable[task] < 2 else reason
            for task, reason in zip(tasks, reasons, strict=True)
        ]
    counts = Counter(reasons)
    return Usability(counts[None], {reason: counts[reason] for reason in EXCLUSION_REASONS if counts[reason]})
