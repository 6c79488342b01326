"""Sub-goal rewards as differences of a potential: they add up to nothing that a policy could earn."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.errors import TrainingError
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.advantages import GroupRelative, Shaped, TurnRelative, shaped_rewards

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
    shaped_advantages = Shaped(GroupRelative(), gamma=1.0)(group)
    # Shaped rewards (.5, .5) and (0, 0): to go (1, .5) and (0, 0), mean return .5
    assert shaped_advantages.turns == ((0.5, 0.0), (-0.5, -0.5))
    assert Shaped(GroupRelative(), gamma=1.0).needs == {"potentials"}


def test_reported_returns_are_unshaped(make_group: MakeGroup, make_member: MakeMember) -> None:
    group = make_group([make_member([1.0], potentials=[0.5, 0.0]), make_member([0.0], potentials=[0.5, 0.0])])
    assert Shaped(TurnRelative(), gamma=1.0)(group).returns == (1.0, 0.0)


def test_missing_members_need_no_potentials(make_group: MakeGroup, make_member: MakeMember) -> None:
    group = make_group([None, make_member([1.0], potentials=[0.5, 0.0]), make_member([0.0], potentials=[0.5, 0.0])])
    assert Shaped(GroupRelative(), gamma=1.0)(group).turns == ((0.0,), (0.5,), (-0.5,))


def test_missing_or_mismatched_potentials_are_refused(make_group: MakeGroup, make_member: MakeMember) -> None:
    shaped = Shaped(GroupRelative(), gamma=1.0)
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
        Shaped(GroupRelative(), gamma=1.0)(group)


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
    """All trajectories start in one state: the advantage of the first turn, that of the whole trajectory, stays."""
    members = [
        make_member(
            [float(reward) for reward, _ in steps], potentials=[float(first), *(float(after) for _, after in steps)]
        )
        for steps in drawn
    ]
    plain = GroupRelative()(make_group(members)).turns
    shaped = Shaped(GroupRelative(), gamma=1.0)(make_group(members)).turns
    assert [turns[0] for turns in shaped] == pytest.approx([turns[0] for turns in plain], abs=1e-9)
