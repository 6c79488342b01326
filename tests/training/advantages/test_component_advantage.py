"""GDPO: each component of the reward is standardised by itself, so that different combinations stay apart."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.errors import ConfigError, TrainingError
from upturn.records import Task
from upturn.training import RewardComponent, ScoredGroup, ScoredTrajectory
from upturn.training.advantages import (
    AdvantageSettings,
    ComponentRelative,
    GroupRelative,
    LagrangianSettings,
    advantage_of,
    rescaled,
)

MakeMember = Callable[..., ScoredTrajectory]
GDPO = AdvantageSettings("components", scale="whiten")
ROOT = np.sqrt(2.0)


def _group(
    make: MakeMember,
    rewards: Sequence[Sequence[float | None]],
    weights: Sequence[float] = (1.0, 1.0),
    *,
    turns: int = 1,
) -> ScoredGroup:
    """One member for each list of components, whose return is their weighted sum, on its last turn."""
    members = []
    for index, values in enumerate(rewards):
        parts = tuple(
            RewardComponent(f"r{number}", value, weight)
            for number, (value, weight) in enumerate(zip(values, weights, strict=True))
        )
        total = sum(part.weight * (part.value or 0.0) for part in parts)
        is_missing = any(value is None for value in values)
        member = make(None if is_missing else [*[0.0] * (turns - 1), total], name=f"t{index}", turns=turns)
        members.append(replace(member, components=parts))
    return ScoredGroup(Task("task", "do it", "toy", "toy"), tuple(members))


def _firsts(group: ScoredGroup) -> list[float]:
    return [turns[0] for turns in ComponentRelative()(group).turns]


def test_one_and_two_better_components_differ_and_do_not_for_grpo(make_member: MakeMember) -> None:
    """The paper's figure 2: with two members, GRPO gives ±1/√2 whatever the difference is."""
    one, both = _group(make_member, [(0, 0), (1, 0)]), _group(make_member, [(0, 0), (1, 1)])
    assert _firsts(one) == pytest.approx([-1 / ROOT, 1 / ROOT], rel=1e-5)
    assert _firsts(both) == pytest.approx([-ROOT, ROOT], rel=1e-5)
    grpo = GroupRelative(scale="std")
    assert grpo(one).turns[1] == pytest.approx([1 / ROOT], rel=1e-5)
    assert grpo(both).turns[1] == pytest.approx([1 / ROOT], rel=1e-5)


def test_equal_sums_of_other_components_differ_and_do_not_for_grpo(make_member: MakeMember) -> None:
    """First component (1, 0, 1, 1): ½, −3/2, ½, ½; second (0, 1, 1, 0): ∓√3/2."""
    group, half = _group(make_member, [(1, 0), (0, 1), (1, 1), (1, 0)]), np.sqrt(3.0) / 2
    expected = [0.5 - half, half - 1.5, 0.5 + half, 0.5 - half]
    assert _firsts(group) == pytest.approx(expected, rel=1e-5)
    first, second, _, _ = GroupRelative(scale="std")(group).turns
    assert first == second


def test_whitening_gives_the_batch_mean_0_and_deviation_1(make_member: MakeMember) -> None:
    """±1/√2 and ±√2 of the two groups: mean 0, squares ½ + ½ + 2 + 2 over n − 1 = 3."""
    groups = [_group(make_member, [(0, 0), (1, 0)]), _group(make_member, [(0, 0), (1, 1)])]
    estimator = advantage_of(GDPO)
    scaled = rescaled(groups, [estimator(group) for group in groups], by=GDPO.scale)
    deviation = np.sqrt(5 / 3)
    assert [turns[0] for advantages in scaled for turns in advantages.turns] == pytest.approx(
        [-1 / ROOT / deviation, 1 / ROOT / deviation, -ROOT / deviation, ROOT / deviation], rel=1e-5
    )


def test_weights_count_after_the_normalisation(make_member: MakeMember) -> None:
    group = _group(make_member, [(0, 100), (1, 0)], (3.0, 1.0))
    assert _firsts(group) == pytest.approx([(-3 + 1) / ROOT, (3 - 1) / ROOT], rel=1e-5)


def test_a_trajectory_without_a_reward_is_excluded(make_member: MakeMember) -> None:
    """The two others are compared with each other, as if the third had not been."""
    advantages = ComponentRelative()(_group(make_member, [(0, 0), (1, 0), (1, None)]))
    assert [turns[0] for turns in advantages.turns] == pytest.approx([-1 / ROOT, 1 / ROOT, 0.0], rel=1e-5)
    assert advantages.returns == (0.0, 1.0, None)


def test_a_missing_component_is_left_out_of_its_comparison_only(make_member: MakeMember) -> None:
    """The first component is compared among three, the second among the two that have it."""
    group = _group(make_member, [(0, 0), (1, 1), (1, None)])
    known = replace(group.members[2], turn_rewards=(1.0,))  # the rest renormalise to a reward
    advantages = ComponentRelative()(replace(group, members=(*group.members[:2], known)))
    first = np.array([-2.0, 1.0, 1.0]) / np.sqrt(3.0)
    expected = first + np.array([-1 / ROOT, 1 / ROOT, 0.0])
    assert [turns[0] for turns in advantages.turns] == pytest.approx(expected.tolist(), rel=1e-5)
    assert advantages.returns == (0.0, 2.0, 1.0)


def test_every_turn_has_the_trajectorys_advantage(make_member: MakeMember) -> None:
    advantages = ComponentRelative()(_group(make_member, [(0, 0), (1, 1)], turns=3))
    assert [len(set(turns)) for turns in advantages.turns] == [1, 1]
    assert [len(turns) for turns in advantages.turns] == [3, 3]
    assert advantages.returns == (0.0, 2.0)


@pytest.mark.parametrize(
    "rewards", [[(1, 1), (1, 1)], [(1, 1)], [(None, 1)] * 2], ids=["equal", "alone", "missing"]
)
def test_without_a_difference_there_is_no_signal(
    make_member: MakeMember, rewards: Sequence[Sequence[float | None]]
) -> None:
    advantages = ComponentRelative()(_group(make_member, rewards))
    assert not advantages.is_informative
    assert all(turns == (0.0,) for turns in advantages.turns)


def test_unknown_or_different_components_are_refused(make_member: MakeMember) -> None:
    group = _group(make_member, [(0, 0), (1, 0)])
    without = replace(group.members[1], components=None)
    with pytest.raises(TrainingError, match="'t1' has a reward but no reward components"):
        ComponentRelative()(replace(group, members=(group.members[0], without)))
    other = replace(group.members[1], components=(RewardComponent("r0", 1.0, 2.0), RewardComponent("r1", 0.0, 1.0)))
    with pytest.raises(TrainingError, match="different reward components or weights"):
        ComponentRelative()(replace(group, members=(group.members[0], other)))


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=6),
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
)
def test_advantages_equal_those_of_numpy(
    make_member: MakeMember, rewards: list[tuple[int, int, int]], weights: tuple[int, int, int]
) -> None:
    values = np.array(rewards, dtype=float)
    deviations = values.std(axis=0, ddof=1)
    scaled = np.where(deviations > 0, (values - values.mean(axis=0)) / np.where(deviations > 0, deviations, 1), 0)
    group = _group(make_member, rewards, [float(weight) for weight in weights])
    assert _firsts(group) == pytest.approx(list(scaled @ np.array(weights)), abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"gamma": 0.5}, "gamma=0.5 would do nothing with estimator='components'; leave it at 1"),
        ({"scale": "std"}, "scale='std' would do nothing with estimator='components'; it takes 'none', 'whiten'"),
        ({"baseline": "leave_one_out"}, "baseline='leave_one_out' would do nothing with estimator='components'"),
        ({"turn_weight": 1.0}, "turn_weight=1.0 would do nothing with estimator='components'"),
        (
            {"lagrangian": LagrangianSettings({"safety": 0.1})},
            "lagrangian does not go with estimator='components': costs",
        ),
    ],
)
def test_options_without_effect_are_refused(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AdvantageSettings("components", **changes)  # type: ignore[arg-type]
    assert any(text.startswith(problem) for text in caught.value.problems)
