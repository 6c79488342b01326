"""What stored trajectories can train, and why not more. No torch here.

A policy gradient needs the log-probs of whoever sampled the tokens: without them nothing says how much likelier the
model in training makes them. Such logs train by imitation or by preference only.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from upturn.records import Task, Trajectory
from upturn.training.advantage import ScoredGroup, ScoredTrajectory, by_task
from upturn.training.row import written_count

Way = Literal["sft", "dpo", "kto", "policy_gradient"]
Reason = Literal["no_tokens", "rendered", "no_logprobs", "temperature", "stale", "unknown_weights", "alone"]

REASONS: Mapping[Reason, str] = {
    "no_tokens": "no written tokens are stored; render their turns first",
    "rendered": "no model of ours sampled them, so there are no sampler log-probs",
    "no_logprobs": "sampled, but stored without sampler log-probs",
    "temperature": "not sampled at temperature 1, which their log-probs are of",
    "stale": "sampled by weights that are too old",
    "unknown_weights": "the weights that sampled them are not among the known versions",
    "alone": "the only usable attempt at their task, so there is nothing to compare",
}
"""In words, for people."""


class Usability(NamedTuple):
    """How many trajectories can train something."""

    usable: int
    left_out: Mapping[Reason, int]
    """By the first reason that holds, in the order of ``REASONS``; the rest of the trajectories."""


class Freshness(NamedTuple):
    """How old the weights may be that sampled stored attempts."""

    versions: Sequence[str]
    """The hashes of the weights (``Trajectory.model_version``) in the order they were made, the newest last."""
    max_age: int
    """Versions between the newest and those that sampled; 0 = the newest only."""

    def why_not(self, trajectory: Trajectory) -> Reason | None:
        """None = fresh enough."""
        if trajectory.model_version not in self.versions:
            return "unknown_weights"
        return "stale" if self.age(trajectory) > self.max_age else None

    def age(self, trajectory: Trajectory) -> int:
        """In versions; of weights that are known."""
        return len(self.versions) - 1 - list(self.versions).index(trajectory.model_version)


def usable_for(trajectories: Sequence[Trajectory], *, freshness: Freshness | None = None) -> dict[Way, Usability]:
    """How many of the trajectories each way of learning could use, and why not the others.

    ``freshness``: for the policy gradient; None = weights of any age. What was earned is not looked at: attempts
    without a reward, or that all earned the same, teach a policy gradient and preferences nothing either.
    """
    recorded = _counted(trajectories, why_no_tokens)
    compared = _counted(trajectories, why_no_tokens, pairs=True)
    sampled = _counted(trajectories, lambda each: why_no_policy(each, freshness), pairs=True)
    return {"sft": recorded, "dpo": compared, "kto": recorded, "policy_gradient": sampled}


def told(usability: Mapping[Way, Usability]) -> list[str]:
    """One line for each way, by its command, then one for each reason that something is left out."""
    lines = []
    for way, found in usability.items():
        total = found.usable + sum(found.left_out.values())
        command = "offline" if way == "policy_gradient" else way
        lines.append(f"{command} can learn from {found.usable} of {total} attempts")
        lines += [f"  {count} left out: {REASONS[reason]}" for reason, count in found.left_out.items()]
    return lines


def why_no_tokens(trajectory: Trajectory) -> Reason | None:
    """None = it has tokens to learn."""
    return None if written_count(trajectory) else "no_tokens"


def why_no_policy(trajectory: Trajectory, freshness: Freshness | None = None) -> Reason | None:
    """None = a policy gradient can use it, given others to compare it with."""
    if not written_count(trajectory):
        return "no_tokens"
    if trajectory.origin != "sampled":
        return "rendered"
    if any(len(row.logprobs) != sum(span.stop - span.start for span in row.spans) for row in trajectory.rows):
        return "no_logprobs"
    if trajectory.temperature != 1.0:
        return "temperature"
    return None if freshness is None else freshness.why_not(trajectory)


def groups_of(attempts: Iterable[tuple[Task, ScoredTrajectory]]) -> list[ScoredGroup]:
    """Groups of attempts at the same task, in the order in which the tasks first appear.

    By task, not by outcome: in a group whose members all succeeded, or all failed, nothing differs, so that every
    advantage is 0.
    """
    return [
        ScoredGroup(found[0][0], tuple(attempt for _, attempt in found))
        for found in by_task(attempts, lambda each: each[0].id)
    ]


def _counted(
    trajectories: Sequence[Trajectory], why_not: Callable[[Trajectory], Reason | None], *, pairs: bool = False
) -> Usability:
    """``pairs``: an attempt needs another usable one at its task."""
    reasons = [why_not(each) for each in trajectories]
    partners = Counter(each.task_id for each, reason in zip(trajectories, reasons, strict=True) if reason is None)
    found = [
        "alone" if reason is None and pairs and partners[each.task_id] < 2 else reason
        for each, reason in zip(trajectories, reasons, strict=True)
    ]
    counts = Counter(reason for reason in found if reason is not None)
    return Usability(found.count(None), {reason: counts[reason] for reason in REASONS if counts[reason]})
