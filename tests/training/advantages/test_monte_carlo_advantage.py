"""Credit from measured state values: by hand, and that it adds up."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.errors import TrainingError
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.advantages import MonteCarloDelta

MakeGroup = Callable[..., ScoredGroup]
MakeMember = Callable[..., ScoredTrajectory]


def test_credit_is_reward_plus_change_of_value(make_group: MakeGroup, make_member: MakeMember) -> None:
    member = make_member([0.0, 0.25, 1.0], values=[(0.5, 8), (0.75, 8), (0.25, 8), (0.0, None)])
    advantages = MonteCarloDelta(gamma=0.5)(make_group([member]))
    # 0 + .75/2 − .5; .25 + .25/2 − .75; 1 + 0 − .25
    assert advantages.turns == ((-0.125, -0.375, 0.75),)
    assert advantages.returns == (0.0 + 0.125 + 0.25,)
    assert advantages.is_informative


def test_turns_between_measured_states_share_the_change(make_group: MakeGroup, make_member: MakeMember) -> None:
    member = make_member([0.0, 0.0, 0.0, 1.0], values=[(0.5, 8), None, (math.nan, 8), (0.8, 8), (0.0, None)])
    (turns,) = MonteCarloDelta()(make_group([member])).turns
    assert turns == pytest.approx((0.1, 0.1, 0.1, 0.2))


def test_missing_members_need_no_values_and_get_zero(make_group: MakeGroup, make_member: MakeMember) -> None:
    group = make_group([None, make_member([1.0], values=[(0.5, 8), (0.0, None)]), [math.nan]])
    advantages = MonteCarloDelta()(group)
    assert advantages.turns == ((0.0,), (0.5,), (0.0,))
    assert advantages.returns == (None, 1.0, None)


def test_a_trajectory_without_turns_has_one_state(make_group: MakeGroup, make_member: MakeMember) -> None:
    assert MonteCarloDelta()(make_group([make_member([], values=[(0.0, None)])])).turns == ((),)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (None, "has no state values; continue the rollout several times"),
        ([(0.5, 8)], "has 1 turns but 1 state values; give one before each turn and one after the last"),
        ([None, (0.0, None)], "has no value of its first state or of its last"),
        ([(0.5, 8), None], "has no value of its first state or of its last"),
        ([(math.inf, 8), (0.0, None)], "a value is finite and the mean of at least one continuation"),
        ([(0.5, 0), (0.0, None)], "a value is finite and the mean of at least one continuation"),
    ],
)
def test_unusable_values_are_refused_with_the_cure(
    make_group: MakeGroup, make_member: MakeMember, values: list[tuple[float, int | None] | None], message: str
) -> None:
    with pytest.raises(TrainingError, match=message):
        MonteCarloDelta()(make_group([make_member([1.0], values=values)]))


numbers = st.integers(-20, 20).map(lambda value: value / 4)


@given(st.lists(st.tuples(numbers, numbers | st.none()), max_size=6), numbers)
def test_credit_adds_up_to_the_return_minus_the_first_value(
    make_group: MakeGroup, make_member: MakeMember, steps: list[tuple[float, float | None]], first: float
) -> None:
    """Whatever was measured in between, or not."""
    rewards = [reward for reward, _ in steps]
    between = [None if value is None else (value, 4) for _, value in steps[:-1]]
    values = [(first, 4), *between, (0.0, None)] if steps else [(0.0, None)]
    (turns,) = MonteCarloDelta()(make_group([make_member(rewards, values=values)])).turns
    assert math.fsum(turns) == pytest.approx(math.fsum(rewards) - (first if steps else 0.0), abs=1e-9)
