"""Selection of successes with a hint, which are trained on as if there had been none. No torch here.

Order: the hint is removed from a trajectory's rows; successes that mention the hint are dropped and counted; the
rest is selected from as trajectories without a hint are."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from upturn.agents import Hint, repeats_hint, without_hint
from upturn.errors import TrainingError
from upturn.records import Trajectory, record
from upturn.training.advantage import ScoredGroup, ScoredTrajectory
from upturn.training.data.collection import check_groups
from upturn.training.data.selection import is_success, select
from upturn.training.selection_settings import HintSettings, SelectionSettings


@record
class HintedGroup:
    """Rollouts with a hint for one task."""

    group: ScoredGroup
    """As sampled: the rows start with the hint."""
    hints: tuple[Hint, ...]
    """One for each member."""


class CollectHinted(Protocol):
    """Samples failed tasks with a hint, with the model's current weights."""

    def __call__(self, iteration: int, failed: Sequence[ScoredGroup], /) -> Sequence[HintedGroup]:
        """Returns groups for some or all of the failed tasks; trajectories need new ids.

        May depend on its arguments, the seed and the weights only.
        """


class HintedSelection(NamedTuple):
    """The selected trajectories of hinted groups."""

    selected: tuple[Trajectory, ...]
    """Without the hint, and rendered: no policy gradient accepts them."""
    metrics: Mapping[str, float]


def select_hinted(
    hinted: Sequence[HintedGroup],
    failed: Sequence[ScoredGroup],
    selection: SelectionSettings,
    settings: HintSettings,
) -> HintedSelection:
    """Returns the successes among hinted trajectories, without their hints.

    Raises TrainingError for a task that did not fail, and for a hint that cannot be removed or leaks.
    """
    check_groups([hinted_group.group for hinted_group in hinted])
    failed_tasks = {group.task.id for group in failed}
    groups, leaked = list[ScoredGroup](), 0
    for hinted_group in hinted:
        group, hints = hinted_group.group, hinted_group.hints
        _check_hints(group, hints, failed_tasks)
        members = []
        for member, hint in zip(group.members, hints, strict=True):
            plain = ScoredTrajectory(without_hint(member.trajectory, hint), member.turn_rewards)
            if is_success(plain, selection) and repeats_hint(plain.trajectory, hint, settings.mentions):
                leaked += 1
            else:
                members.append(plain)
        groups.append(replace(group, members=tuple(members)))
    selected = select(groups, selection).selected
    name = "rationalised" if settings.kind == "rationalisation" else "repaired"
    count = sum(len(hinted_group.hints) for hinted_group in hinted)
    metrics = {"hinted_trajectories": float(count), name: float(len(selected)), "leaked": float(leaked)}
    return HintedSelection(selected, metrics)


def _check_hints(group: ScoredGroup, hints: Sequence[Hint], failed_tasks: set[str]) -> None:
    if group.task.id not in failed_tasks:
        raise TrainingError(
            f"task {group.task.id!r} was sampled with a hint, but is not among the failed tasks; "
            "sample the failed tasks only"
        )
    if len(hints) != len(group.members):
        raise TrainingError(
            f"the group of task {group.task.id!r} has {len(group.members)} trajectories and {len(hints)} hints; "
            "give each its own"
        )
