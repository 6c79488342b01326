"""Sub-goal rewards as differences of a potential: they add up to nothing that a policy could earn."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.errors import TrainingError
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.advantages import AdvantageSettings, Shaped, TurnRelative, advantage_of, shaped_rewards

MakeGroup = Callable[..., ScoredGroup]
MakeMember = Callable[..., ScoredTrajectory]


def test_rewards_gain_the_difference_of_potentials(make_member: MakeMember) -> None:
    member = make_member([0.0, 0.0, 1.0], potentials=[0.25, 0.5, 0.75, 99.0])
    # .5·γ − .25; .75·γ − .5; 1 + 0 − .75: the potential after the last turn counts as 0
    assert shaped_rewards(member, 0.5) == (0.0, -0.125, 0.25)


def test_shaping_compares_turns_with_the_potential_of_their_state(
    make_group: MakeGroup, make_member: MakeMember
) -> None:
    group = make_group(
        [
            make_member([0.0, 1.0], potentials=[0.0, 0.5, 0.0]),
            make_member([0.0, 0.0], potentials=[0.0, 0.0, 0.0]),
        ]
    )
    shaped_advantages = Shaped(TurnRelative(), gamma=1.0)(group)
    # Shaped rewards (.5, .5) and (0, 0): to go (1, .5) and (0, 0), means .5 and .25
    assert shaped_advantages.turns == ((0.5, 0.25), (-0.5, -0.25))
    assert Shaped(TurnRelative(), gamma=1.0).needs == {"potentials"}


def test_growing_potentials_do_not_punish_a_success(make_group: MakeGroup, make_member: MakeMember) -> None:
    """The success has the potentials 0, .3, .6, .9 before its turns, the failures make no progress."""
    success = make_member([0.0, 0.0, 0.0, 1.0], potentials=[0.0, 0.3, 0.6, 0.9, 1.0])
    failure = make_member([0.0] * 4, potentials=[0.0] * 5)
    shaped_advantages = Shaped(TurnRelative(), gamma=1.0)(make_group([success, failure, failure, failure]))
    # To go 1, .7, .4 and .1, minus a quarter
    assert shaped_advantages.turns[0] == pytest.approx([0.75, 0.525, 0.3, 0.075])
    combined = advantage_of(AdvantageSettings("turn", is_shaped=True, turn_weight=1.0))
    credit = combined(make_group([success, failure, failure, failure])).turns
    assert credit[0] == pytest.approx([1.5, 1.275, 1.05, 0.825])
    assert all(value < 0 for turns in credit[1:] for value in turns)


def test_reported_returns_are_unshaped(make_group: MakeGroup, make_member: MakeMember) -> None:
    group = make_group([make_member([1.0], potentials=[0.5, 0.0]), make_member([0.0], potentials=[0.5, 0.0])])
    assert Shaped(TurnRelative(), gamma=1.0)(group).returns == (1.0, 0.0)


def test_missing_members_need_no_potentials(make_group: MakeGroup, make_member: MakeMember) -> None:
    group = make_group([None, make_member([1.0], potentials=[0.5, 0.0]), make_member([0.0], potentials=[0.5, 0.0])])
    assert Shaped(TurnRelative(), gamma=1.0)(group).turns == ((0.0,), (0.5,), (-0.5,))


def test_missing_or_mismatched_potentials_are_refused(make_group: MakeGroup, make_member: MakeMember) -> None:
    shaped = Shaped(TurnRelative(), gamma=1.0)
    with pytest.raises(TrainingError, match="'t' has no potentials to shape its rewards by"):
        shaped(make_group([[1.0], [0.0]]))
    with pytest.raises(TrainingError, match="'t' has 1 turns but 3 potentials"):
        shaped(make_group([make_member([1.0], potentials=[0.0] * 3)]))


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1])
def test_a_non_finite_potential_is_refused(
    make_group: MakeGroup, make_member: MakeMember, broken: float, place: int
) -> None:
    potentials = [0.2, 0.3, 0.9]
    potentials[place] = broken
    group = make_group([make_member([0.0, 1.0], potentials=potentials), make_member([0.0], potentials=[0.2, 0.0])])
    message = rf"'t' has the potential {broken!r} before turn {place}.*potentials are finite"
    with pytest.raises(TrainingError, match=message):
        Shaped(TurnRelative(), gamma=1.0)(group)


walk = st.lists(st.tuples(st.integers(-8, 8), st.integers(-8, 8)), min_size=1, max_size=6)


@given(walk, st.integers(-8, 8), st.sampled_from([1.0, 0.5]))
def test_the_shaped_return_is_the_return_minus_the_first_potential(
    make_member: MakeMember, steps: list[tuple[int, int]], first: int, gamma: float
) -> None:
    """The difference is independent of the trajectory, so the optimal policy stays optimal."""
    rewards = [float(reward) for reward, _ in steps]
    member = make_member(rewards, potentials=[float(first), *(float(after) for _, after in steps)])
    shaped = shaped_rewards(member, gamma)
    assert shaped is not None
    before, after = (
        math.fsum(gamma**index * reward for index, reward in enumerate(turns)) for turns in (rewards, shaped)
    )
    assert after == pytest.approx(before - first, abs=1e-9)


@given(st.lists(walk, min_size=2, max_size=4), st.integers(-8, 8))
def test_shaping_keeps_the_order_and_distance_of_returns(
    make_group: MakeGroup, make_member: MakeMember, drawn: list[list[tuple[int, int]]], first: int
) -> None:
    """All trajectories start in one state, so the advantage of the first turn stays."""
    members = [
        make_member(
            [float(reward) for reward, _ in steps], potentials=[float(first), *(float(after) for _, after in steps)]
        )
        for steps in drawn
    ]
    plain = TurnRelative()(make_group(members)).turns
    shaped = Shaped(TurnRelative(), gamma=1.0)(make_group(members)).turns
    assert [turns[0] for turns in shaped] == pytest.approx([turns[0] for turns in plain], abs=1e-9)
