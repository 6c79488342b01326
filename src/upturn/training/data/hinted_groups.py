"""Second attempts, with help, at what failed; learned from as if there had been no help. No torch here.

Order: an attempt's hint is taken out of its row; successes that speak of the hint are left out and counted; the
rest is selected from as first attempts are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from upturn.agents import Hint, repeats_hint, without_hint
from upturn.errors import TrainingError
from upturn.records import Trajectory, record
from upturn.training.advantage import ScoredGroup, ScoredTrajectory
from upturn.training.data.collection import check_group, check_ids
from upturn.training.data.selection import is_success, select
from upturn.training.selection_settings import SecondSettings, SelectionSettings


@record
class HintedGroup:
    """Second attempts at one task, with help."""

    group: ScoredGroup
    """As they were made: their rows begin with the hint."""
    hints: tuple[Hint, ...]
    """One for each member."""


class CollectSecond(Protocol):
    """Attempts tasks again, with help, with the model's current weights."""

    def __call__(self, iteration: int, failed: Sequence[ScoredGroup], /) -> Sequence[HintedGroup]:
        """Groups for some or all of the tasks that failed in the round; trajectories need ids of their own.

        May depend on its arguments, the seed and the weights only.
        """


class Learnable(NamedTuple):
    """What second attempts give to learn from."""

    kept: tuple[Trajectory, ...]
    """Without the hint, and rendered: no policy gradient accepts them."""
    metrics: Mapping[str, float]


def learnable(
    seconds: Sequence[HintedGroup],
    failed: Sequence[ScoredGroup],
    selection: SelectionSettings,
    settings: SecondSettings,
) -> Learnable:
    """The successes among second attempts, without their hints.

    Raises TrainingError for attempts at a task that did not fail, and for a hint that cannot be taken out or leaks.
    """
    check_ids(each.group for each in seconds)
    asked = {group.task.id for group in failed}
    plain, leaked = list[ScoredGroup](), 0
    for each in seconds:
        _check(each, asked)
        clean = [
            ScoredTrajectory(without_hint(member.trajectory, hint), member.turn_rewards)
            for member, hint in zip(each.group.members, each.hints, strict=True)
        ]
        told = [
            is_success(member, selection) and repeats_hint(member.trajectory, hint, settings.mentions)
            for member, hint in zip(clean, each.hints, strict=True)
        ]
        leaked += sum(told)
        members = tuple(member for member, is_told in zip(clean, told, strict=True) if not is_told)
        plain.append(replace(each.group, members=members))
    found = select(plain, selection)
    learned = "rationalised" if settings.kind == "rationalisation" else "repaired"
    return Learnable(
        found.kept,
        {
            "second_attempts": float(sum(len(each.group.members) for each in seconds)),
            learned: float(len(found.kept)),
            "leaked": float(leaked),
        },
    )


def _check(each: HintedGroup, asked: set[str]) -> None:
    check_group(each.group)
    if each.group.task.id not in asked:
        raise TrainingError(
            f"task {each.group.task.id!r} was attempted a second time though some first attempt succeeded or none "
            "could be judged; attempt only what is asked for"
        )
    if len(each.hints) != len(each.group.members):
        raise TrainingError(
            f"the group of task {each.group.task.id!r} has {len(each.group.members)} second attempts and "
            f"{len(each.hints)} hints; give each attempt its own"
        )
