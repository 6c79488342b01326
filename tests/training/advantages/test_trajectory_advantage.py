"""Comparison of whole trajectories: fixtures of other projects, and invariants for any rewards."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.errors import TrainingError
from upturn.records import Observation, Task, Trajectory, Turn
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.advantages import Baseline, GroupRelative

QUICK = settings(deadline=None, max_examples=40)
TASK = Task("task", "do it", "toy", "toy")


def _bare(turns: int) -> Trajectory:
    turn = Turn(Observation(""), "", None)
    return Trajectory("t", "task", "nano@1", (turn,) * turns, Observation(""), "finished", "sampled")


def _group(rewards: Sequence[Sequence[float] | None]) -> ScoredGroup:
    members = tuple(
        ScoredTrajectory(_bare(1 if turns is None else len(turns)), None if turns is None else tuple(turns))
        for turns in rewards
    )
    return ScoredGroup(TASK, members)


# Integers keep the arithmetic exact; a spread of at least 1 is never mistaken for rounding.
returns = st.lists(st.integers(-50, 50).map(float), min_size=2, max_size=9)


def test_leave_one_out_gives_skyrl_rloo_numbers() -> None:
    """F1: SkyRL, test_ppo_utils.py, rloo_basic."""
    rloo = GroupRelative(baseline="leave_one_out")
    assert rloo(_group([[6.0], [3.0]])).turns == ((3.0,), (-3.0,))
    assert rloo(_group([[9.0], [12.0]])).turns == ((-3.0,), (3.0,))
    assert rloo(_group([[1.0]])).turns == ((0.0,),)


def test_centred_gives_skyrl_grpo_numbers_without_std() -> None:
    """F2: SkyRL, grpo_norm_std_false."""
    assert GroupRelative()(_group([[6.0], [3.0]])).turns == ((1.5,), (-1.5,))
    assert GroupRelative()(_group([[9.0], [12.0]])).turns == ((-1.5,), (1.5,))


def test_std_gives_the_closed_form_of_one_success_in_eight() -> None:
    """Sample standard deviation, k = 1 of G = 8: √((1−p)/p)·√((G−1)/G) = 2.4749 and −.3536."""
    advantages = GroupRelative(scale="std")(_group([[1.0]] + [[0.0]] * 7))
    assert advantages.turns[0][0] == pytest.approx(2.4749, abs=1e-4)
    assert advantages.turns[1][0] == pytest.approx(-0.3536, abs=1e-4)


def test_turns_have_the_discounted_return_minus_the_mean_return() -> None:
    advantages = GroupRelative(gamma=0.5)(_group([[1.0, 2.0], [0.0, 0.0, 8.0]]))
    assert not advantages.is_informative  # both returns are 2
    advantages = GroupRelative(gamma=0.5)(_group([[1.0, 2.0], [0.0, 0.0, 16.0]]))
    assert advantages.turns == ((-1.0, -1.0), (1.0, 1.0, 1.0))  # returns 2 and 4
    assert advantages.returns == (2.0, 4.0)


def test_dense_rewards_do_not_accumulate_a_penalty_of_later_turns() -> None:
    """+1 for each of five turns, and one last reward of 1.01: a mean return of 5.0025."""
    advantages = GroupRelative()(_group([[1.0] * 5] * 3 + [[1.0] * 4 + [1.01]]))
    assert advantages.turns[0] == pytest.approx([-0.0025] * 5)
    assert advantages.turns[3] == pytest.approx([0.0075] * 5)


def test_missing_rewards_are_excluded_from_the_baseline_and_get_zero() -> None:
    advantages = GroupRelative()(_group([[6.0], None, [3.0], [math.nan]]))
    assert advantages.turns == ((1.5,), (0.0,), (-1.5,), (0.0,))
    assert advantages.returns == (6.0, None, 3.0, None)


def test_a_nan_in_any_turn_makes_the_whole_trajectory_missing() -> None:
    advantages = GroupRelative()(_group([[6.0, math.nan], [3.0], [5.0]]))
    assert advantages.turns == ((0.0, 0.0), (-1.0,), (1.0,))


def test_one_scorable_member_gives_no_signal() -> None:
    advantages = GroupRelative()(_group([[1.0], None, None]))
    assert advantages.turns == ((0.0,), (0.0,), (0.0,))
    assert not advantages.is_informative


def test_equal_rewards_are_filtered_even_when_their_mean_rounds() -> None:
    advantages = GroupRelative()(_group([[0.7], [0.7], [0.7]]))
    assert advantages.turns == ((0.0,),) * 3
    assert not advantages.is_informative


def test_a_trajectory_without_turns_has_return_zero() -> None:
    advantages = GroupRelative()(_group([[], [1.0]]))
    assert advantages.turns == ((), (0.5,))


@QUICK
@given(returns)
def test_centred_advantages_sum_to_zero(values: list[float]) -> None:
    advantages = GroupRelative()(_group([[value] for value in values]))
    assert math.fsum(turns[0] for turns in advantages.turns) == pytest.approx(0.0, abs=1e-9)


@QUICK
@given(st.data(), returns, st.sampled_from(["group_mean", "leave_one_out"]))
def test_order_of_members_does_not_matter(data: st.DataObject, values: list[float], baseline: Baseline) -> None:
    advantage = GroupRelative(baseline=baseline)
    order = data.draw(st.permutations(range(len(values))))
    straight = advantage(_group([[value] for value in values])).turns
    shuffled = advantage(_group([[values[index]] for index in order])).turns
    assert shuffled == tuple(straight[index] for index in order)


@QUICK
@given(returns)
def test_leave_one_out_is_centred_times_g_over_g_minus_one(values: list[float]) -> None:
    group = _group([[value] for value in values])
    centred = GroupRelative()(group).turns
    rloo = GroupRelative(baseline="leave_one_out")(group).turns
    factor = len(values) / (len(values) - 1)
    assert [turn[0] for turn in rloo] == pytest.approx([factor * turn[0] for turn in centred])


@QUICK
@given(returns, st.integers(0, 9))
def test_a_missing_member_changes_nothing_for_the_others(values: list[float], place: int) -> None:
    place = min(place, len(values))
    present: list[list[float] | None] = [[value] for value in values]
    with_missing = [*present[:place], None, *present[place:]]
    straight = GroupRelative()(_group(present)).turns
    with_missing_member = GroupRelative()(_group(with_missing)).turns
    assert with_missing_member == (*straight[:place], (0.0,), *straight[place:])


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


def test_max_rl_divides_by_the_mean_as_skyrl_does() -> None:
    """F3: SkyRL, maxrl: ±1.5/4.5 and ∓1.5/10.5."""
    max_rl = GroupRelative(scale="mean")
    assert max_rl(_group([[6.0], [3.0]])).turns == ((1.5 / 4.5,), (-1.5 / 4.5,))
    assert max_rl(_group([[9.0], [12.0]])).turns == ((-1.5 / 10.5,), (1.5 / 10.5,))
    with pytest.raises(TrainingError, match=r"task 'task' has a return of -1\.0; returns must be 0 or more"):
        max_rl(_group([[-1.0], [3.0]]))


def test_without_a_baseline_every_turn_gets_the_return() -> None:
    advantages = GroupRelative(baseline="none", gamma=0.5)(_group([[1.0, 2.0], None]))
    assert advantages.turns == ((2.0, 2.0), (0.0,))
    assert advantages.is_informative


@pytest.mark.parametrize("baseline", ["group_mean", "leave_one_out"])
def test_64_trajectories_in_5_groups_agree_with_the_vectorised_form(baseline: Baseline) -> None:
    """F12: verl's random 64 × 128 with 5 groups, its formulas written again for whole arrays."""
    rng = np.random.default_rng(0)
    rewards, index = rng.normal(size=(64, 128)), rng.integers(0, 5, size=64)
    member = np.eye(5)[index]
    total, count = member.T @ rewards.sum(1), member.sum(0)
    returns_P = rewards.sum(1)
    mean = (total / count)[index] if baseline == "group_mean" else (total[index] - returns_P) / (count[index] - 1)
    expected = np.repeat((returns_P - mean)[:, None], 128, axis=1)
    for group in range(5):
        chosen = np.flatnonzero(index == group)
        advantages = GroupRelative(baseline=baseline)(_group([rewards[place].tolist() for place in chosen]))
        assert np.allclose(np.array(advantages.turns), expected[chosen], atol=1e-9)
