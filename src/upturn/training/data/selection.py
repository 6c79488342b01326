"""Which of the sampled attempts a model learns from: verified successes, few of each task. Pure; no torch here.

Order for each task: attempts without a reward are left out and counted, then those below the threshold; what is
left is put in order of preference; of attempts that wrote the same the first counts; the first ``top`` of these
are kept. The order in which attempts or groups are given changes nothing but the order of the tasks.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from upturn.errors import TrainingError
from upturn.records import Trajectory
from upturn.training.advantage import ScoredGroup, ScoredTrajectory, by_task, reward_of
from upturn.training.row import written_count
from upturn.training.selection_settings import Prefer, SelectionSettings

Tokens: TypeAlias = tuple[int, ...]

LONGEST_RUN = 3
"""Tokens in the longest runs that likeness looks at: single tokens know no order, long runs are hardly ever
shared."""


class Selection(NamedTuple):
    """What is left of a round's attempts, and where the others went: the counts add up to all attempts."""

    kept: tuple[Trajectory, ...]
    """Task by task in the order given, each in order of preference."""
    unsolved: tuple[ScoredGroup, ...]
    """The groups of tasks of which some attempt could be scored and none succeeded."""
    failed: int
    """Attempts below the threshold."""
    unscorable: int
    duplicates: int
    surplus: int
    """Successes beyond ``top``."""


def select(groups: Sequence[ScoredGroup], settings: SelectionSettings) -> Selection:
    """The attempts to learn from. Groups of one task count as one.

    Raises TrainingError for a success without written tokens.
    """
    kept: list[Trajectory] = []
    unsolved: list[ScoredGroup] = []
    failed, unscorable, duplicates, surplus = 0, 0, 0, 0
    for together in by_task(groups, lambda group: group.task.id):
        members = [member for group in together for member in group.members]
        scorable = [member for member in members if member.is_scorable]
        successes = [member for member in scorable if is_success(member, settings)]
        ordered = _ordered(successes, settings.prefer)
        distinct = _distinct(ordered) if settings.distinct else ordered
        chosen = _first(distinct, settings)
        kept += (member.trajectory for member in chosen)
        if scorable and not successes:
            unsolved += together
        failed += len(scorable) - len(successes)
        unscorable += len(members) - len(scorable)
        duplicates += len(successes) - len(distinct)
        surplus += len(distinct) - len(chosen)
    return Selection(tuple(kept), tuple(unsolved), failed, unscorable, duplicates, surplus)


def refuse_idle_top(groups: Sequence[ScoredGroup], settings: SelectionSettings) -> None:
    """Raises TrainingError when ``top`` asks for more than any task has attempts, so that it would do nothing."""
    tasks = by_task(groups, lambda group: group.task.id)
    most = max((sum(len(group.members) for group in together) for together in tasks), default=0)
    if settings.top is not None and settings.top > most:
        raise TrainingError(
            f"selection.top={settings.top!r} would do nothing with at most {most} attempts at a task; make more "
            "attempts, lower it, or leave it out (None = all successes)"
        )


def is_success(member: ScoredTrajectory, settings: SelectionSettings) -> bool:
    """False also for what could not be scored, and for what a verifier called a failure, whatever it earned."""
    return member.is_scorable and member.succeeded is not False and reward_of(member) >= settings.threshold


def written_ids(trajectory: Trajectory) -> Tokens:
    """All tokens that the attempt wrote, turn by turn."""
    spans = [(span.turn, place, span) for place, row in enumerate(trajectory.rows) for span in row.spans]
    ordered = sorted(spans, key=lambda each: each[:2])
    return tuple(
        token for _, place, span in ordered for token in trajectory.rows[place].token_ids[span.start : span.stop]
    )


def unlikeness(left: Tokens, right: Tokens) -> float:
    """In [0, 1], a metric: 1 − |A ∩ B| / |A ∪ B| of their runs of up to 3 tokens (Jaccard). 0 for two empty
    ones."""
    ours, theirs = _runs(left), _runs(right)
    return 1 - len(ours & theirs) / len(ours | theirs) if ours or theirs else 0.0


def _runs(tokens: Tokens) -> frozenset[Tokens]:
    return frozenset(
        tokens[start : start + size]
        for size in range(1, LONGEST_RUN + 1)
        for start in range(len(tokens) - size + 1)
    )


def _ordered(members: Sequence[ScoredTrajectory], prefer: Prefer) -> list[ScoredTrajectory]:
    """Best first. What was written decides between equals, and the id at last, so that the order is always one."""

    def key(member: ScoredTrajectory) -> tuple[float, float, float, Tokens, str]:
        attempt, reward = member.trajectory, -reward_of(member)
        turns, written = len(attempt.turns), written_count(attempt)
        if not written:
            raise TrainingError(
                f"trajectory {attempt.id!r} succeeded but has no written tokens to learn from; give what no model "
                "of ours wrote its rows first (agents.rendered_rows)"
            )
        first = (turns, written, reward) if prefer == "shortest" else (reward, turns, written)
        return (*first, written_ids(attempt), attempt.id)

    return sorted(members, key=key)


def _distinct(members: Sequence[ScoredTrajectory]) -> list[ScoredTrajectory]:
    """The first of those that wrote the same."""
    found: dict[Tokens, ScoredTrajectory] = {}
    for member in members:
        found.setdefault(written_ids(member.trajectory), member)
    return list(found.values())


def _first(members: Sequence[ScoredTrajectory], settings: SelectionSettings) -> list[ScoredTrajectory]:
    if settings.top is None or len(members) <= settings.top:
        return list(members)
    return _spread(members, settings.top) if settings.prefer == "diverse" else list(members[: settings.top])


def _spread(members: Sequence[ScoredTrajectory], count: int) -> list[ScoredTrajectory]:
    """The first, then always the one that is farthest from the chosen one nearest to it; the earlier of equals."""
    written = [written_ids(member.trajectory) for member in members]
    chosen = [0]
    nearest = [unlikeness(each, written[0]) for each in written]
    while len(chosen) < count:
        following = max((place for place in range(len(members)) if place not in chosen), key=nearest.__getitem__)
        chosen.append(following)
        nearest = [
            min(now, unlikeness(each, written[following])) for now, each in zip(nearest, written, strict=True)
        ]
    return [members[place] for place in chosen]
