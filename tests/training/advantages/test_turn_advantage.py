"""Turns of one index compared, by hand and by what must hold."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.training import ScoredGroup
from upturn.training.advantages import GroupRelative, TurnRelative

MakeGroup = Callable[..., ScoredGroup]

ragged = st.lists(st.lists(st.integers(-9, 9).map(float), min_size=1, max_size=5), min_size=2, max_size=6)


def test_turns_of_one_index_share_a_baseline(make_group: MakeGroup) -> None:
    advantages = TurnRelative(gamma=0.5)(make_group([[1.0, 2.0], [0.0, 4.0], [0.0, 0.0, 8.0]]))
    # to go: (2, 2), (2, 4), (2, 4, 8); means 2, 10/3 and, with one member left, none
    assert advantages.turns[0] == pytest.approx((0.0, 2 - 10 / 3))
    assert advantages.turns[1] == pytest.approx((0.0, 4 - 10 / 3))
    assert advantages.turns[2] == pytest.approx((0.0, 4 - 10 / 3, 0.0))
    assert advantages.returns == (2.0, 2.0, 2.0)
    assert advantages.is_informative


def test_scaling_divides_by_the_sample_deviation_at_the_index(make_group: MakeGroup) -> None:
    advantages = TurnRelative(is_scaled=True)(make_group([[6.0, 0.0], [3.0, 0.0]]))
    # sample deviation of (6, 3): 1.5·√2
    assert advantages.turns[0] == pytest.approx((1 / math.sqrt(2), 0.0))
    assert advantages.turns[1] == pytest.approx((-1 / math.sqrt(2), 0.0))


def test_missing_members_are_excluded(make_group: MakeGroup) -> None:
    advantages = TurnRelative()(make_group([[6.0], None, [3.0], [math.nan]]))
    assert advantages.turns == ((1.5,), (0.0,), (-1.5,), (0.0,))


def test_one_member_gives_no_signal(make_group: MakeGroup) -> None:
    advantages = TurnRelative()(make_group([[1.0, 2.0], None]))
    assert advantages.turns == ((0.0, 0.0), (0.0,))
    assert not advantages.is_informative


@given(ragged)
def test_each_index_sums_to_zero(make_group: MakeGroup, rewards: list[list[float]]) -> None:
    advantages = TurnRelative(gamma=0.9)(make_group(rewards))
    for index in range(5):
        at_index = [turns[index] for turns in advantages.turns if len(turns) > index]
        assert math.fsum(at_index) == pytest.approx(0.0, abs=1e-9)


@given(st.data(), ragged)
def test_order_of_members_does_not_matter(
    make_group: MakeGroup, data: st.DataObject, rewards: list[list[float]]
) -> None:
    order = data.draw(st.permutations(range(len(rewards))))
    straight = TurnRelative(gamma=0.9)(make_group(rewards)).turns
    shuffled = TurnRelative(gamma=0.9)(make_group([rewards[place] for place in order])).turns
    assert shuffled == tuple(straight[place] for place in order)


def test_with_single_turns_it_is_the_centred_advantage(make_group: MakeGroup) -> None:
    group = make_group([[6.0], [3.0], [0.0]])
    assert TurnRelative()(group) == GroupRelative()(group)
