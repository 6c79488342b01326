"""Comparison of trajectories where their token histories diverge."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.errors import TrainingError
from upturn.records import TokenRow
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.advantages import GroupRelative, TreeSiblings, shared_histories

MakeGroup = Callable[..., ScoredGroup]
MakeMember = Callable[..., ScoredTrajectory]
MakeRow = Callable[..., TokenRow]


def _three(make_group: MakeGroup, make_member: MakeMember, make_row: MakeRow) -> ScoredGroup:
    """Two write x first, of which one earns 1; the third writes y and earns 0."""
    return make_group(
        [
            make_member([0.0, 1.0], rows=[make_row("p", "x", "o", "a")]),
            make_member([0.0, 0.0], rows=[make_row("p", "x", "o", "b")]),
            make_member([0.0, 0.0], rows=[make_row("p", "y", "o", "a")]),
        ]
    )


def test_tree_credit_is_the_change_of_the_mean_return_over_shared_histories(
    make_group: MakeGroup, make_member: MakeMember, make_row: MakeRow
) -> None:
    advantages = TreeSiblings()(_three(make_group, make_member, make_row))
    # V(p) = 1/3, V(px) = 1/2, V(py) = 0; after the last turn a trajectory has its own return.
    assert advantages.turns[0] == pytest.approx((1 / 2 - 1 / 3, 1 - 1 / 2))
    assert advantages.turns[1] == pytest.approx((1 / 2 - 1 / 3, 0 - 1 / 2))
    assert advantages.turns[2] == pytest.approx((0 - 1 / 3, 0.0))


def test_leave_one_out_excludes_the_member_itself(
    make_group: MakeGroup, make_member: MakeMember, make_row: MakeRow
) -> None:
    advantages = TreeSiblings(baseline="leave_one_out")(_three(make_group, make_member, make_row))
    # The others at p: 0, 1/2, 1/2; at px: 0 and 1; none at py.
    assert advantages.turns == ((1 / 2 - 0, 1.0), (1 / 2 - 1 / 2, -1.0), (0 - 1 / 2, 0.0))


def test_equal_observations_after_other_actions_are_other_histories(
    make_group: MakeGroup, make_member: MakeMember, make_row: MakeRow
) -> None:
    histories = shared_histories(_three(make_group, make_member, make_row))
    assert histories[0][0] == histories[1][0] == histories[2][0]
    assert histories[0][1] == histories[1][1] != histories[2][1]


def test_forked_trajectories_share_a_history_only_if_all_rows_are_equal(
    make_group: MakeGroup, make_member: MakeMember, make_row: MakeRow
) -> None:
    """In the second turn all of them read and see the same tokens; what came before differs in the third."""
    fork = make_row("q", "a", turns=[1], fork_cause="history_shortened")
    group = make_group(
        [
            make_member([0.0, 1.0], rows=[make_row("p", "x"), fork]),
            make_member([0.0, 0.0], rows=[make_row("p", "x"), fork]),
            make_member([0.0, 0.0], rows=[make_row("p", "y"), fork]),
        ]
    )
    histories = shared_histories(group)
    assert histories[0] == histories[1]
    assert histories[0][0] == histories[2][0]
    assert histories[0][1] != histories[2][1]
    # The first two did the same throughout, but one was luckier.
    assert TreeSiblings()(group).turns[0] == pytest.approx((1 / 2 - 1 / 3, 1 / 2))


def test_auxiliary_calls_belong_to_the_history(
    make_group: MakeGroup, make_member: MakeMember, make_row: MakeRow
) -> None:
    def with_thought(thought: str, reward: float) -> ScoredTrajectory:
        aside = make_row("think", thought, turns=[0])
        acting = make_row("p", "x", "o", "a", fork_cause="history_changed")
        return make_member([0.0, reward], rows=[aside, acting])

    first, second = shared_histories(make_group([with_thought("u", 1.0), with_thought("v", 0.0)]))
    assert first[0] == second[0]
    assert first[1] != second[1]


def test_missing_members_are_excluded_and_need_no_tokens(
    make_group: MakeGroup, make_member: MakeMember, make_row: MakeRow
) -> None:
    group = make_group(
        [
            make_member([1.0], rows=[make_row("p", "x")]),
            None,
            make_member([0.0], rows=[make_row("p", "y")]),
            make_member([]),
        ]
    )
    assert TreeSiblings()(group).turns == ((0.5,), (0.0,), (-0.5,), ())


def test_one_member_gives_no_signal(make_group: MakeGroup, make_member: MakeMember, make_row: MakeRow) -> None:
    advantages = TreeSiblings()(make_group([make_member([0.0, 1.0], rows=[make_row("p", "x", "o", "a")])]))
    assert advantages.turns == ((0.0, 0.0),)
    assert not advantages.is_informative


def test_a_turn_without_tokens_is_refused_with_the_cure(make_group: MakeGroup) -> None:
    with pytest.raises(TrainingError, match=r"turn 0 of trajectory 't' has no recorded tokens.*local model"):
        TreeSiblings()(make_group([[1.0], [0.0]]))


drawn_trajectories = st.lists(
    st.tuples(st.text("ab", min_size=1, max_size=4), st.integers(-9, 9).map(float)), min_size=1, max_size=7
)
"""One letter written a turn, and a reward at the end."""


def _group(
    make_group: MakeGroup, make_member: MakeMember, make_row: MakeRow, drawn: list[tuple[str, float]]
) -> ScoredGroup:
    return make_group(
        [
            make_member(
                [*(0.0 for _ in letters[1:]), reward],
                rows=[make_row("p", *(part for letter in letters for part in (letter, "o")))],
            )
            for letters, reward in drawn
        ]
    )


@given(drawn_trajectories)
def test_credit_adds_up_to_the_return_minus_the_mean(
    make_group: MakeGroup, make_member: MakeMember, make_row: MakeRow, drawn: list[tuple[str, float]]
) -> None:
    group = _group(make_group, make_member, make_row, drawn)
    advantages = TreeSiblings()(group).turns
    mean = math.fsum(reward for _, reward in drawn) / len(drawn)
    assert [math.fsum(turns) for turns in advantages] == pytest.approx(
        [reward - mean for _, reward in drawn], abs=1e-9
    )
    assert math.fsum(value for turns in advantages for value in turns) == pytest.approx(0.0, abs=1e-8)


@given(drawn_trajectories)
def test_credit_agrees_with_counting_prefixes(
    make_group: MakeGroup, make_member: MakeMember, make_row: MakeRow, drawn: list[tuple[str, float]]
) -> None:
    """Independent implementation with strings: V of a prefix is the mean over the trajectories that have it."""
    advantages = TreeSiblings()(_group(make_group, make_member, make_row, drawn)).turns

    def value(prefix: str) -> float:
        ahead = [reward for letters, reward in drawn if letters.startswith(prefix) and len(letters) > len(prefix)]
        return math.fsum(ahead) / len(ahead)

    for (letters, reward), turns in zip(drawn, advantages, strict=True):
        values = [*(value(letters[:count]) for count in range(len(letters))), reward]
        expected = [after - before for before, after in pairwise(values)]
        assert turns == pytest.approx(expected, abs=1e-9)


@given(st.data(), drawn_trajectories)
def test_order_of_members_does_not_matter(
    make_group: MakeGroup,
    make_member: MakeMember,
    make_row: MakeRow,
    data: st.DataObject,
    drawn: list[tuple[str, float]],
) -> None:
    order = data.draw(st.permutations(range(len(drawn))))
    straight = TreeSiblings()(_group(make_group, make_member, make_row, drawn)).turns
    shuffled = TreeSiblings()(_group(make_group, make_member, make_row, [drawn[place] for place in order])).turns
    assert shuffled == tuple(straight[place] for place in order)


@given(st.lists(st.integers(-9, 9).map(float), min_size=2, max_size=7, unique=True))
def test_trajectories_without_a_shared_prefix_are_compared_as_wholes(
    make_group: MakeGroup, make_member: MakeMember, make_row: MakeRow, rewards: list[float]
) -> None:
    """Where nothing but the prompt is shared, leave-one-out is RLOO, on the first turn."""
    members = [
        make_member([0.0, reward], rows=[make_row("p", chr(65 + place), "o", "a")])
        for place, reward in enumerate(rewards)
    ]
    advantages = TreeSiblings(baseline="leave_one_out")(make_group(members)).turns
    whole = GroupRelative(baseline="leave_one_out")(make_group([[reward] for reward in rewards])).turns
    assert [turns[0] for turns in advantages] == pytest.approx([turns[0] for turns in whole])
    assert all(turns[1] == 0.0 for turns in advantages)
