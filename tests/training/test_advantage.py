"""Advantages: fixtures of other projects, and what must hold for any rewards."""

import math
from collections.abc import Sequence
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.errors import ConfigError, TrainingError
from upturn.records import Observation, Task, Trajectory, Turn
from upturn.training import AdvantageSettings, GroupRelative, ScoredGroup, ScoredTrajectory

QUICK = settings(deadline=None, max_examples=40)
TASK = Task("task", "do it", "toy", "toy")


def _bare(turns: int) -> Trajectory:
    turn = Turn(Observation(""), "", None)
    return Trajectory("t", "task", "nano@1", (turn,) * turns, Observation(""), "finished", "sampled")


def _group(rewards: Sequence[Sequence[float] | None]) -> ScoredGroup:
    members = tuple(
        ScoredTrajectory(_bare(1 if each is None else len(each)), None if each is None else tuple(each))
        for each in rewards
    )
    return ScoredGroup(TASK, members)


# Integers keep the arithmetic exact; a spread of at least 1 is never mistaken for rounding.
returns = st.lists(st.integers(-50, 50).map(float), min_size=2, max_size=9)


def test_leave_one_out_gives_skyrl_rloo_numbers() -> None:
    """F1: SkyRL, test_ppo_utils.py, rloo_basic."""
    rloo = GroupRelative(AdvantageSettings(baseline="leave_one_out"))
    assert rloo(_group([[6.0], [3.0]])).turns == ((3.0,), (-3.0,))
    assert rloo(_group([[9.0], [12.0]])).turns == ((-3.0,), (3.0,))
    assert rloo(_group([[1.0]])).turns == ((0.0,),)


def test_centred_gives_skyrl_grpo_numbers_without_std() -> None:
    """F2: SkyRL, grpo_norm_std_false."""
    assert GroupRelative()(_group([[6.0], [3.0]])).turns == ((1.5,), (-1.5,))
    assert GroupRelative()(_group([[9.0], [12.0]])).turns == ((-1.5,), (1.5,))


def test_std_gives_the_closed_form_of_one_success_in_eight() -> None:
    """Sample standard deviation, k = 1 of G = 8: √((1−p)/p)·√((G−1)/G) = 2.4749 and −.3536."""
    found = GroupRelative(AdvantageSettings(scale="std"))(_group([[1.0]] + [[0.0]] * 7))
    assert found.turns[0][0] == pytest.approx(2.4749, abs=1e-4)
    assert found.turns[1][0] == pytest.approx(-0.3536, abs=1e-4)


def test_turns_earn_their_discounted_return_to_go_minus_the_mean_return() -> None:
    found = GroupRelative(AdvantageSettings(gamma=0.5))(_group([[1.0, 2.0], [0.0, 0.0, 8.0]]))
    # to go: (1 + 1, 2) = (2, 2); (0 + 2, 0 + 4, 8) = (2, 4, 8): equal returns, so nothing to learn
    assert not found.is_informative
    found = GroupRelative(AdvantageSettings(gamma=0.5))(_group([[1.0, 2.0], [0.0, 0.0, 16.0]]))
    # to go: (2, 2) and (4, 8, 16); mean return 3
    assert found.turns == ((-1.0, -1.0), (1.0, 5.0, 13.0))
    assert found.returns == (2.0, 4.0)


def test_missing_rewards_stay_out_of_the_baseline_and_get_zero() -> None:
    found = GroupRelative()(_group([[6.0], None, [3.0], [math.nan]]))
    assert found.turns == ((1.5,), (0.0,), (-1.5,), (0.0,))
    assert found.returns == (6.0, None, 3.0, None)


def test_a_nan_in_any_turn_makes_the_whole_trajectory_missing() -> None:
    found = GroupRelative()(_group([[6.0, math.nan], [3.0], [5.0]]))
    assert found.turns == ((0.0, 0.0), (-1.0,), (1.0,))


def test_one_scorable_member_teaches_nothing() -> None:
    found = GroupRelative()(_group([[1.0], None, None]))
    assert found.turns == ((0.0,), (0.0,), (0.0,))
    assert not found.is_informative


def test_equal_rewards_are_filtered_even_when_their_mean_rounds() -> None:
    found = GroupRelative()(_group([[0.7], [0.7], [0.7]]))
    assert found.turns == ((0.0,),) * 3
    assert not found.is_informative


def test_an_attempt_without_turns_counts_as_a_return_of_zero() -> None:
    found = GroupRelative()(_group([[], [1.0]]))
    assert found.turns == ((), (0.5,))


@QUICK
@given(returns)
def test_centred_advantages_sum_to_zero(values: list[float]) -> None:
    found = GroupRelative()(_group([[value] for value in values]))
    assert math.fsum(turns[0] for turns in found.turns) == pytest.approx(0.0, abs=1e-9)


@QUICK
@given(st.data(), returns, st.sampled_from(["group_mean", "leave_one_out"]))
def test_order_of_members_does_not_matter(
    data: st.DataObject, values: list[float], baseline: Literal["group_mean", "leave_one_out"]
) -> None:
    advantage = GroupRelative(AdvantageSettings(baseline=baseline))
    order = data.draw(st.permutations(range(len(values))))
    straight = advantage(_group([[value] for value in values])).turns
    shuffled = advantage(_group([[values[index]] for index in order])).turns
    assert shuffled == tuple(straight[index] for index in order)


@QUICK
@given(returns)
def test_leave_one_out_is_centred_times_g_over_g_minus_one(values: list[float]) -> None:
    group = _group([[value] for value in values])
    centred = GroupRelative()(group).turns
    rloo = GroupRelative(AdvantageSettings(baseline="leave_one_out"))(group).turns
    factor = len(values) / (len(values) - 1)
    assert [turn[0] for turn in rloo] == pytest.approx([factor * turn[0] for turn in centred])


@QUICK
@given(returns, st.integers(0, 9))
def test_a_missing_member_changes_nothing_for_the_others(values: list[float], place: int) -> None:
    place = min(place, len(values))
    present: list[list[float] | None] = [[value] for value in values]
    with_missing = [*present[:place], None, *present[place:]]
    straight = GroupRelative()(_group(present)).turns
    beside = GroupRelative()(_group(with_missing)).turns
    assert beside == (*straight[:place], (0.0,), *straight[place:])


@QUICK
@given(returns, st.integers(-100, 100))
def test_shifting_all_rewards_changes_nothing(values: list[float], shift: int) -> None:
    straight = GroupRelative()(_group([[value] for value in values])).turns
    shifted = GroupRelative()(_group([[value + shift] for value in values])).turns
    assert [turn[0] for turn in shifted] == pytest.approx([turn[0] for turn in straight], abs=1e-9)


def test_rewards_that_do_not_fit_the_turns_are_refused_by_name() -> None:
    group = ScoredGroup(TASK, (ScoredTrajectory(_bare(2), (1.0,)), ScoredTrajectory(_bare(1), (0.0,))))
    with pytest.raises(TrainingError, match="'t' has 2 turns but 1 turn rewards"):
        GroupRelative()(group)


def test_infinite_rewards_are_refused_by_name() -> None:
    with pytest.raises(TrainingError, match="trajectory 't' has an infinite reward"):
        GroupRelative()(_group([[math.inf], [0.0]]))


def test_settings_outside_their_range_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"gamma must be in \(0, 1\], got 1\.5"):
        AdvantageSettings(gamma=1.5)
