"""Selection of the trajectories to train on: verified successes, at most a few per task. No torch here.

Order for each task: trajectories without a reward are dropped and counted, then those below the threshold; the rest
is sorted by preference; of trajectories with the same written tokens the first counts; the first ``top`` of these
are selected. The order of the input only affects the order of the tasks."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from upturn.errors import TrainingError
from upturn.records import Trajectory
from upturn.training.advantage import ScoredGroup, ScoredTrajectory, group_by_task, total_reward
from upturn.training.row import written_count
from upturn.training.selection_settings import Prefer, SelectionSettings

Tokens: TypeAlias = tuple[int, ...]

LONGEST_NGRAM = 3
"""Tokens in the longest n-grams that are compared: single tokens have no order, long n-grams are rarely shared."""


class Selection(NamedTuple):
    """The selected trajectories of a round, and the counts of the others; together they are all trajectories."""

    selected: tuple[Trajectory, ...]
    """By task in the order of the input, each in order of preference."""
    unsolved: tuple[ScoredGroup, ...]
    """The groups of tasks with scorable trajectories and no success."""
    failed: int
    """Trajectories below the threshold."""
    unscorable: int
    duplicates: int
    surplus: int
    """Successes beyond ``top``."""


def select(groups: Sequence[ScoredGroup], settings: SelectionSettings) -> Selection:
    """Returns the trajectories to train on. Groups of one task count as one.

    Raises TrainingError for a success without written tokens.
    """
    selected: list[Trajectory] = []
    unsolved: list[ScoredGroup] = []
    failed, unscorable, duplicates, surplus = 0, 0, 0, 0
    for task_groups in group_by_task(groups, lambda group: group.task.id):
        members = [member for group in task_groups for member in group.members]
        scorable = [member for member in members if member.is_scorable]
        successes = [member for member in scorable if is_success(member, settings)]
        ordered = _sort_by_preference(successes, settings.prefer)
        distinct = _drop_duplicates(ordered) if settings.distinct else ordered
        chosen = _choose_top(distinct, settings)
        selected += chosen
        if scorable and not successes:
            unsolved += task_groups
        failed += len(scorable) - len(successes)
        unscorable += len(members) - len(scorable)
        duplicates += len(successes) - len(distinct)
        surplus += len(distinct) - len(chosen)
    return Selection(tuple(selected), tuple(unsolved), failed, unscorable, duplicates, surplus)


def check_top(groups: Sequence[ScoredGroup], settings: SelectionSettings) -> None:
    """Raises TrainingError when ``top`` is larger than the number of trajectories of every task."""
    tasks = group_by_task(groups, lambda group: group.task.id)
    largest = max((sum(len(group.members) for group in task_groups) for task_groups in tasks), default=0)
    if settings.top is not None and settings.top > largest:
        raise TrainingError(
            f"selection.top={settings.top!r} would do nothing with at most {largest} trajectories per task; sample "
            "more, lower it, or leave it out (None = all successes)"
        )


def is_success(member: ScoredTrajectory, settings: SelectionSettings) -> bool:
    """True when the reward reaches the threshold; False for unscorable trajectories and for a verifier's
    failures."""
    return member.is_scorable and member.succeeded is not False and total_reward(member) >= settings.threshold


def written_ids(trajectory: Trajectory) -> Tokens:
    """Returns all written tokens, turn by turn."""
    spans = sorted(
        (span.turn, index, span.start, span.stop) for index, row in enumerate(trajectory.rows) for span in row.spans
    )
    return tuple(token for _, index, start, stop in spans for token in trajectory.rows[index].token_ids[start:stop])


def jaccard_distance(left: Tokens, right: Tokens) -> float:
    """Returns 1 − |A ∩ B| / |A ∪ B| of the n-grams of up to 3 tokens, in [0, 1], a metric; 0 for two empty ones."""
    ours, theirs = _ngrams(left), _ngrams(right)
    return 1 - len(ours & theirs) / len(ours | theirs) if ours or theirs else 0.0


def _ngrams(tokens: Tokens) -> frozenset[Tokens]:
    return frozenset(
        tokens[start : start + size]
        for size in range(1, LONGEST_NGRAM + 1)
        for start in range(len(tokens) - size + 1)
    )


def _sort_by_preference(members: Sequence[ScoredTrajectory], prefer: Prefer) -> list[Trajectory]:
    """Best first. Ties are broken by the written tokens, then by the id, so that the order is unique."""

    def key(member: ScoredTrajectory) -> tuple[float, float, float, Tokens, str]:
        trajectory, reward = member.trajectory, -total_reward(member)
        turns, written = len(trajectory.turns), written_count(trajectory)
        if not written:
            raise TrainingError(
                f"trajectory {trajectory.id!r} succeeded but has no written tokens to train on; add rows to "
                "trajectories of other models first (agents.rendered_rows)"
            )
        first = (turns, written, reward) if prefer == "shortest" else (reward, turns, written)
        return (*first, written_ids(trajectory), trajectory.id)

    return [member.trajectory for member in sorted(members, key=key)]


def _drop_duplicates(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """The first trajectory of each text."""
    distinct: dict[Tokens, Trajectory] = {}
    for trajectory in trajectories:
        distinct.setdefault(written_ids(trajectory), trajectory)
    return list(distinct.values())


def _choose_top(trajectories: Sequence[Trajectory], settings: SelectionSettings) -> Sequence[Trajectory]:
    """The first ``top``, or the first and then repeatedly the one farthest from the nearest chosen one; ties go to
    the earlier one."""
    if settings.top is None or len(trajectories) <= settings.top or settings.prefer != "diverse":
        return trajectories[: settings.top]
    written = [written_ids(trajectory) for trajectory in trajectories]
    chosen = [0]
    nearest = [jaccard_distance(ids, written[0]) for ids in written]
    while len(chosen) < settings.top:
        farthest = max((index for index in range(len(written)) if index not in chosen), key=nearest.__getitem__)
        chosen.append(farthest)
        nearest = [
            min(distance, jaccard_distance(ids, written[farthest]))
            for distance, ids in zip(nearest, written, strict=True)
        ]
    return [trajectories[index] for index in chosen]
