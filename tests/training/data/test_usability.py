"""Usability of stored trajectories, counted by reason of exclusion."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from upturn.records import Task, TokenRow, Trajectory
from upturn.training import ScoredTrajectory
from upturn.training.advantages import GroupRelative
from upturn.training.data.usability import (
    EXCLUSION_REASONS,
    Freshness,
    Usability,
    count_usable,
    describe_usability,
    group_trajectories,
)

Make = Callable[..., Trajectory]


def _stored(make: Make) -> list[Trajectory]:
    """Trajectories of two tasks, named by what makes them unusable."""

    fine = replace(make(name="fine", task="t"), model_version="v2")
    (row,) = fine.rows
    return [
        fine,
        replace(fine, id="fine too"),
        replace(fine, id="alone", task_id="other"),
        replace(fine, id="old", model_version="v0"),
        replace(fine, id="foreign", model_version="unknown"),
        replace(fine, id="hot", temperature=0.7),
        replace(fine, id="bare", rows=(TokenRow(row.token_ids, row.spans, ()),)),
        replace(make(origin="rendered", name="rendered", task="t"), temperature=None),
        replace(fine, id="text only", rows=()),
    ]


def test_trajectories_are_counted_by_usability(make_trajectory: Make) -> None:
    usability = count_usable(_stored(make_trajectory))
    assert usability["sft"] == usability["kto"] == Usability(8, {"no_tokens": 1})
    assert usability["dpo"] == Usability(7, {"no_tokens": 1, "alone": 1})
    assert usability["policy_gradient"] == Usability(
        4, {"no_tokens": 1, "rendered": 1, "no_logprobs": 1, "temperature": 1, "alone": 1}
    )


def test_with_a_limit_on_age_old_and_unknown_weights_are_counted(make_trajectory: Make) -> None:
    bound = Freshness(("v0", "v1", "v2"), max_age=1)
    usability = count_usable(_stored(make_trajectory), freshness=bound)
    assert usability["policy_gradient"].usable == 2
    assert (
        usability["policy_gradient"].excluded["stale"]
        == usability["policy_gradient"].excluded["unknown_weights"]
        == 1
    )
    assert usability["dpo"] == count_usable(_stored(make_trajectory))["dpo"]
    assert (
        count_usable(_stored(make_trajectory), freshness=bound._replace(max_age=2))["policy_gradient"].usable == 3
    )


def test_rendered_trajectories_train_everything_but_a_policy_gradient(make_trajectory: Make) -> None:
    stored = [make_trajectory(origin="rendered", name=str(at), temperature=None) for at in range(3)]
    usability = count_usable(stored)
    assert {use: counts.usable for use, counts in usability.items()} == {
        "sft": 3,
        "dpo": 3,
        "kto": 3,
        "policy_gradient": 0,
    }
    assert describe_usability(usability)[-2:] == [
        "offline can train on 0 of 3 trajectories",
        f"  3 left out: {EXCLUSION_REASONS['rendered']}",
    ]


def test_an_empty_list_has_no_usable_trajectories() -> None:
    assert list(count_usable([]).values()) == [Usability(0, {})] * 4


def test_groups_by_task_have_a_signal_and_groups_by_outcome_have_none(make_trajectory: Make) -> None:
    scored = [
        (Task(task, "", "", ""), ScoredTrajectory(make_trajectory(name=f"{task}{reward}", task=task), (reward,)))
        for task in ("one", "two")
        for reward in (0.0, 1.0)
    ]
    groups = group_trajectories(scored)
    assert [(group.task.id, len(group.members)) for group in groups] == [("one", 2), ("two", 2)]
    advantages = [GroupRelative()(group).turns for group in groups]
    assert advantages == [((-0.5,), (0.5,))] * 2
    winners = replace(groups[0], members=(groups[0].members[1], groups[1].members[1]))
    assert GroupRelative()(winners).turns == ((0.0,), (0.0,))
    assert not GroupRelative()(winners).is_informative


@pytest.mark.parametrize(("version", "age"), [("v2", 0), ("v0", 2)])
def test_ages_are_counted_in_versions(make_trajectory: Make, version: str, age: int) -> None:
    assert Freshness(("v0", "v1", "v2"), 0).age(replace(make_trajectory(), model_version=version)) == age


def test_the_oldest_tokens_decide_the_age(make_trajectory: Make) -> None:
    trajectory = make_trajectory(spans=((0, 1, 2), (0, 3, 4)))
    (row,) = trajectory.rows
    spans = (replace(row.spans[0], model_version="v1"), row.spans[1])
    mixed = replace(trajectory, rows=(replace(row, spans=spans),), model_version="v2")
    limit = Freshness(("v0", "v1", "v2"), 0)
    assert limit.age(mixed) == 1 and limit.exclusion_reason(mixed) == "stale"
    assert limit._replace(max_age=1).exclusion_reason(mixed) is None
    assert limit._replace(versions=("v2",)).exclusion_reason(mixed) == "unknown_weights"


def test_selecting_tasks_and_trajectories_loads_no_torch() -> None:
    """Commands that only estimate a training start fast."""
    light = (
        "data.usability",
        "algorithms.offline.settings",
        "algorithms.mixture.settings",
        "data.curriculum_collect",
    )
    code = f"import sys, {', '.join(f'upturn.training.{name}' for name in light)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
