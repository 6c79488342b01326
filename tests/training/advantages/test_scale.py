"""An iteration's advantages on one scale, by hand."""

import math
from collections.abc import Callable

import pytest

from upturn.records import TokenRow
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.advantages import GroupRelative, rescaled

MakeGroup = Callable[..., ScoredGroup]
MakeMember = Callable[..., ScoredTrajectory]
MakeRow = Callable[..., TokenRow]


def test_batch_std_divides_by_the_deviation_of_all_returns(make_group: MakeGroup) -> None:
    groups = [make_group([[6.0], [3.0]]), make_group([[9.0], [12.0], None])]
    advantages = rescaled(groups, [GroupRelative()(group) for group in groups], by="batch_std")
    # Returns 6, 3, 9, 12: mean 7.5, squares 2.25 + 20.25 + 2.25 + 20.25 = 45, by 3.
    std = math.sqrt(15)
    first, second = advantages
    assert [turns[0] for turns in first.turns] == pytest.approx([1.5 / std, -1.5 / std])
    assert [turns[0] for turns in second.turns] == pytest.approx([-1.5 / std, 1.5 / std, 0.0])
    assert advantages[0].returns == (6.0, 3.0)


def test_whitening_counts_a_turn_once_for_every_token(
    make_group: MakeGroup, make_member: MakeMember, make_row: MakeRow
) -> None:
    """REINFORCE++: returns, less the mean over all tokens, by their deviation."""
    group = make_group(
        [
            make_member([0.0, 4.0], rows=[make_row("p", "x", "o", "yy")]),
            make_member([0.0], rows=[make_row("p", "z")]),
            make_member(None, rows=[make_row("p", "zzz")]),
        ]
    )
    (advantages,) = rescaled([group], [GroupRelative(baseline="none")(group)], by="whiten")
    # Tokens 4, 4, 4, 0: mean 3, squares 1 + 1 + 1 + 9, by 3.
    assert advantages.turns[0] == pytest.approx((0.5, 0.5))
    assert advantages.turns[1] == pytest.approx((-1.5,))
    assert advantages.turns[2] == (0.0,)
    assert advantages.is_informative


def test_without_tokens_whitening_counts_turns(make_group: MakeGroup) -> None:
    groups = [make_group([[0.0, 4.0]]), make_group([[0.0]])]
    advantages = rescaled(groups, [GroupRelative(baseline="none")(group) for group in groups], by="whiten")
    # Turns 4, 4, 0: mean 8/3, squares 2·16/9 + 64/9 = 96/9, by 2.
    std = math.sqrt(48 / 9)
    assert advantages[0].turns[0] == pytest.approx((4 / 3 / std, 4 / 3 / std))
    assert advantages[1].turns[0] == pytest.approx((-8 / 3 / std,))


def test_equal_advantages_whiten_to_zero(make_group: MakeGroup) -> None:
    groups = [make_group([[2.0], [2.0]]), make_group([[2.0]])]
    advantages = rescaled(groups, [GroupRelative(baseline="none")(group) for group in groups], by="whiten")
    assert [advantage.turns for advantage in advantages] == [((0.0,), (0.0,)), ((0.0,),)]
    assert not any(advantage.is_informative for advantage in advantages)


def test_equal_returns_are_not_divided(make_group: MakeGroup) -> None:
    groups = [make_group([[2.0], [2.0]])]
    advantages = rescaled(groups, [GroupRelative(baseline="none")(groups[0])], by="batch_std")
    assert advantages[0].turns == ((2.0,), (2.0,))


def test_group_scales_need_no_rescaling(make_group: MakeGroup) -> None:
    groups = [make_group([[6.0], [3.0]])]
    advantages = [GroupRelative(scale="std")(groups[0])]
    assert rescaled(groups, advantages, by="std") == advantages
    assert rescaled(groups, advantages, by="none") == advantages
