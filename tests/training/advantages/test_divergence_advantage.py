"""Blame for the first turn that is shown to have cost something, and how often that errs."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.errors import TrainingError
from upturn.training import ScoredGroup, ScoredTrajectory, StateValue
from upturn.training.advantages import FirstDivergence

MakeGroup = Callable[..., ScoredGroup]
MakeMember = Callable[..., ScoredTrajectory]


def _exact(values: Sequence[float]) -> list[tuple[float, None]]:
    return [(value, None) for value in values]


def test_only_the_first_significant_fall_has_negative_credit(
    make_group: MakeGroup, make_member: MakeMember
) -> None:
    member = make_member([0.0] * 4, values=_exact([0.75, 0.75, 0.5, 0.25, 0.0]))
    assert FirstDivergence()(make_group([member])).turns == ((0.0, -0.25, 0.0, 0.0),)


def test_every_significant_rise_has_credit(make_group: MakeGroup, make_member: MakeMember) -> None:
    member = make_member([0.0, 0.0, 0.0, 1.0], values=_exact([0.5, 0.75, 0.25, 0.5, 0.0]))
    assert FirstDivergence()(make_group([member])).turns == ((0.25, -0.5, 0.25, 0.5),)


def test_the_threshold_is_hoeffding_s_over_all_turns_and_both_directions(
    make_group: MakeGroup, make_member: MakeMember
) -> None:
    rule = FirstDivergence(error_probability=0.05)
    threshold = rule.threshold(StateValue(0.5, 64), StateValue(0.5, 64), turns=5)
    assert threshold == pytest.approx(math.sqrt(math.log(2 * 5 / 0.05) * (1 / 64 + 1 / 64) / 2), abs=1e-8)
    assert threshold == pytest.approx(0.2877, abs=1e-4)
    against_exact = rule.threshold(StateValue(0.5, 64), StateValue(0.0, None), turns=5)
    assert against_exact == pytest.approx(threshold / math.sqrt(2), abs=1e-8)
    assert FirstDivergence(value_range=2.0).threshold(
        StateValue(0.5, 64), StateValue(0.5, 64), turns=5
    ) == pytest.approx(2 * threshold, abs=1e-8)
    # A fall of 0.28 is not shown, one of 0.30 is.
    for fall, expected in ((0.28, 0.0), (0.30, -0.30)):
        values = [(0.5, 64)] * 4 + [(0.5 - fall, 64), (0.0, None)]
        member = make_member([0.0] * 4 + [0.5 - fall], values=values)
        assert rule(make_group([member])).turns[0][3] == pytest.approx(expected)


def test_false_credits_are_no_more_frequent_than_stated(make_group: MakeGroup, make_member: MakeMember) -> None:
    """2,000 trajectories of 5 turns whose true value is .5 throughout, each state measured by 8 continuations.

    Hoeffding allows 20 % here. The test fails by chance with probability below 1e-9 if the bound holds.
    """
    rng = np.random.default_rng(0)
    rule = FirstDivergence(error_probability=0.2)
    wrong = 0
    for means in rng.binomial(8, 0.5, size=(2000, 5)) / 8:
        values = [*((float(mean), 8) for mean in means), (0.0, None)]
        # The last reward makes the last turn change nothing either.
        member = make_member([0.0] * 4 + [float(means[-1])], values=values)
        wrong += any(rule(make_group([member])).turns[0])
    assert wrong <= 2000 * 0.2


@pytest.mark.parametrize(
    ("rewards", "values", "low", "high"),
    [
        ([10.0], [(5.0, 64), (0.0, None)], "0.0", "10.0"),
        ([0.5], [(-0.75, 64), (0.0, None)], "-0.75", "0.5"),
        ([0.5, 1.0], [(0.5, 64), (0.5, 64), (0.0, None)], "0.0", "1.5"),
        ([1.0, -1.5], [(0.5, 64), (0.5, 64), (0.0, None)], "-1.5", "0.5"),
    ],
)
def test_values_and_returns_further_apart_than_the_range_are_refused(
    make_group: MakeGroup,
    make_member: MakeMember,
    rewards: list[float],
    values: list[tuple[float, int | None]],
    low: str,
    high: str,
) -> None:
    """With rewards of 0 and 10 a bound for returns within 1 would call chance a change."""
    group = make_group([make_member(rewards, values=values)])
    message = rf"task 'task' has returns from {low} to {high}.*value_range=1.0.*set advantage.value_range to"
    with pytest.raises(TrainingError, match=message):
        FirstDivergence()(group)
    width = float(high) - float(low)
    assert FirstDivergence(value_range=width)(group).returns == (sum(rewards),)


def test_the_range_covers_all_members_and_the_end(make_group: MakeGroup, make_member: MakeMember) -> None:
    """Each trajectory alone fits a range of 1; together they do not. Unscorable members are ignored."""
    good = make_member([0.75], values=[(0.5, 64), (0.0, None)])
    bad = make_member([-0.75], values=[(-0.5, 64), (0.0, None)])
    missing = make_member(None, values=[(9.0, 64), (0.0, None)])
    assert FirstDivergence()(make_group([good, missing])).returns == (0.75, None)
    assert FirstDivergence()(make_group([bad])).returns == (-0.75,)
    with pytest.raises(TrainingError, match=r"from -0\.75 to 0\.75"):
        FirstDivergence()(make_group([good, bad]))


def test_missing_members_need_no_values_and_get_zero(make_group: MakeGroup, make_member: MakeMember) -> None:
    group = make_group([None, make_member([1.0], values=_exact([0.5, 0.0]))])
    assert FirstDivergence()(group).turns == ((0.0,), (0.5,))


def test_unmeasured_states_are_refused(make_group: MakeGroup, make_member: MakeMember) -> None:
    member = make_member([0.0, 1.0], values=[(0.5, 8), None, (0.0, None)])
    with pytest.raises(TrainingError, match=r"has states whose value was not measured.*'monte_carlo'"):
        FirstDivergence()(make_group([member]))
    with pytest.raises(TrainingError, match="has no state values"):
        FirstDivergence()(make_group([[1.0]]))


@given(st.lists(st.integers(0, 8).map(lambda value: value / 8), min_size=1, max_size=7), st.integers(1, 500))
def test_at_most_one_turn_has_negative_credit_and_none_exceeds_its_change(
    make_group: MakeGroup, make_member: MakeMember, means: list[float], count: int
) -> None:
    member = make_member([0.0] * len(means), values=[*((mean, count) for mean in means), (0.0, None)])
    (turns,) = FirstDivergence()(make_group([member])).turns
    changes = np.diff([*means, 0.0])
    assert sum(turn < 0 for turn in turns) <= 1
    assert all(turn in (0.0, change) for turn, change in zip(turns, changes.tolist(), strict=True))
