"""Pairs from groups, of whole trajectories and of actions after the same history, against hand-computed values."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.errors import TrainingError
from upturn.records import PreferencePair, Task, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory, StateValue
from upturn.training.data.pair_mining import mine_pairs
from upturn.training.pair_settings import PairSettings

Make = Callable[..., Trajectory]
TURNS = PairSettings(by="turn")
LEFT, RIGHT, UP = 11, 12, 13


class Rollout(NamedTuple):
    """Two turns of one token, and their rewards."""

    actions: tuple[int, int]
    rewards: tuple[float, ...] | None


@pytest.fixture
def make_group(make_trajectory: Make) -> Callable[[Sequence[Rollout]], ScoredGroup]:
    """The observation after the first turn is the action itself, so histories differ where actions do."""

    def make(rollouts: Sequence[Rollout]) -> ScoredGroup:
        members = []
        for index, (actions, rewards) in enumerate(rollouts):
            tokens = (1, 2, actions[0], 3, actions[1])
            trajectory = make_trajectory(tokens, ((0, 2, 3), (1, 4, 5)), name=f"w{index}")
            members.append(ScoredTrajectory(trajectory, rewards))
        return ScoredGroup(Task("task", "", "", ""), tuple(members))

    return make


MakeGroup = Callable[[Sequence[Rollout]], ScoredGroup]


def _shown(pairs: Sequence[PreferencePair]) -> list[tuple[str, float]]:
    return [(pair.id, round(pair.margin, 9)) for pair in pairs if pair.margin is not None]


def test_whole_trajectories_pair_the_best_with_the_worst(make_group: MakeGroup) -> None:
    rollouts = [Rollout((LEFT, UP), (0.0, 0.5)), Rollout((RIGHT, UP), (0.25, 0.75)), Rollout((UP, UP), (0.0, 0.25))]
    mined = mine_pairs([make_group(rollouts)], PairSettings())
    (pair,) = mined.pairs
    assert (pair.id, pair.margin, pair.source) == ("w1 > w2", 0.75, "group")
    assert pair.chosen_turns is pair.rejected_turns is None
    assert set(mined.dropped.values()) == {0}


def test_actions_are_compared_by_the_mean_return_to_go_of_their_trajectories(make_group: MakeGroup) -> None:
    """First turn: left earned (1 + 0)/2, right .25. After left: up 1, right 0. After right there is no other
    trajectory."""
    rollouts = [
        Rollout((LEFT, UP), (0.0, 1.0)),
        Rollout((LEFT, RIGHT), (0.0, 0.0)),
        Rollout((RIGHT, UP), (0.0, 0.25)),
    ]
    mined = mine_pairs([make_group(rollouts)], TURNS)
    assert _shown(mined.pairs) == [("w0@0 > w2@0", 0.25), ("w0@1 > w1@1", 1.0)]
    first, second = mined.pairs
    assert (first.chosen_turns, first.rejected_turns) == ((0,), (0,))
    assert (second.chosen_turns, second.rejected_turns, second.source) == ((1,), (1,), "turn")


def test_rewards_before_a_turn_do_not_affect_its_value(make_group: MakeGroup) -> None:
    """The second turns earned .5 each; one trajectory had a larger reward before, from its environment."""
    rollouts = [Rollout((LEFT, UP), (1.0, 0.5)), Rollout((LEFT, RIGHT), (0.0, 0.5))]
    mined = mine_pairs([make_group(rollouts)], TURNS)
    assert mined.pairs == ()
    assert mined.dropped["equal"] == 1


def test_only_differences_beyond_the_minimum_margin_are_used_and_the_others_counted(make_group: MakeGroup) -> None:
    rollouts = [Rollout((LEFT, UP), (0.0, 1.0)), Rollout((RIGHT, UP), (0.0, 0.5)), Rollout((UP, UP), (0.0, 0.5))]
    mined = mine_pairs([make_group(rollouts)], replace(TURNS, min_margin=0.5))
    assert mined.pairs == ()
    assert (mined.dropped["close"], mined.dropped["equal"]) == (2, 1)
    used = mine_pairs([make_group(rollouts)], replace(TURNS, min_margin=0.49))
    assert _shown(used.pairs) == [("w0@0 > w1@0", 0.5), ("w0@0 > w2@0", 0.5)]
    assert len(mine_pairs([make_group(rollouts)], PairSettings(min_margin=0.5)).pairs) == 0
    assert len(mine_pairs([make_group(rollouts)], PairSettings(min_margin=0.49)).pairs) == 1


def test_measured_states_value_the_actions_that_led_to_them(make_group: MakeGroup) -> None:
    """Left led to .75 and .25, mean .5, and earned nothing; right led to .25 and earned .5: .75."""
    group = make_group(
        [Rollout((LEFT, UP), (0.0, 9.0)), Rollout((LEFT, RIGHT), (0.0, 9.0)), Rollout((RIGHT, UP), (0.5, 9.0))]
    )
    after = (0.75, 0.25, 0.25)
    end = StateValue(0.0, None)
    members = tuple(
        replace(member, state_values=(StateValue(0.5, 4), StateValue(value, 4), end))
        for member, value in zip(group.members, after, strict=True)
    )
    measured = replace(TURNS, valued_by="state_values")
    mined = mine_pairs([replace(group, members=members)], measured)
    assert _shown(mined.pairs) == [("w2@0 > w0@0", 0.25)]
    unknown = tuple(
        replace(member, state_values=(StateValue(0.5, 4), None if index == 2 else StateValue(0.5, 4), end))
        for index, member in enumerate(members)
    )
    mined = mine_pairs([replace(group, members=unknown)], measured)
    assert (mined.pairs, mined.dropped["unvalued"]) == ((), 1)
    with pytest.raises(TrainingError, match="'w0' has no state values"):
        mine_pairs([group], measured)


def test_a_critic_is_mixed_in_and_none_means_unknown(make_group: MakeGroup) -> None:
    """Earned: left 1, right 0. The critic: left 0, right .5 (mean of two). At α = .25: .25 against .375."""
    rollouts = [Rollout((LEFT, UP), (0.0, 1.0)), Rollout((RIGHT, UP), (0.0, 0.0)), Rollout((RIGHT, UP), (0.0, 0.0))]
    mixed = replace(TURNS, monte_carlo_share=0.25)

    def critic(group: ScoredGroup) -> list[list[float | None]]:
        assert [member.trajectory.id for member in group.members] == ["w0", "w1", "w2"]
        return [[0.0, None], [0.25, math.nan], [0.75, None]]

    mined = mine_pairs([make_group(rollouts)], mixed, critic)
    assert _shown(mined.pairs) == [("w1@0 > w0@0", 0.125)]
    unsure: list[list[float | None]] = [[0.0, 0.0], [None, 0.0], [None, 0.0]]
    unknown_values = mine_pairs([make_group(rollouts)], mixed, lambda _: unsure)
    assert (unknown_values.pairs, unknown_values.dropped["unvalued"]) == ((), 1)
    with pytest.raises(
        TrainingError, match=r"values for \[1\] turns of a group at task 'task' .* have \[2, 2, 2\]"
    ):
        mine_pairs([make_group(rollouts)], mixed, lambda _: [[0.0]])


def test_a_critic_needs_a_share_below_one_and_vice_versa(make_group: MakeGroup) -> None:
    group = make_group([Rollout((LEFT, UP), (0.0, 1.0))])
    with pytest.raises(TrainingError, match=r"monte_carlo_share=0\.5 with no critic"):
        mine_pairs([group], replace(TURNS, monte_carlo_share=0.5))
    with pytest.raises(TrainingError, match=r"monte_carlo_share=1\.0 with a critic"):
        mine_pairs([group], TURNS, lambda group: [[0.0, 0.0] for _ in group.members])


@pytest.mark.parametrize("by", ["trajectory", "turn"])
def test_comparisons_without_a_signal_are_dropped_and_counted(make_group: MakeGroup, by: str) -> None:
    pairing = PairSettings(by=by)  # type: ignore[arg-type]
    group = make_group(
        [Rollout((LEFT, UP), (0.0, 1.0)), Rollout((RIGHT, UP), None), Rollout((UP, UP), (0.0, math.nan))]
    )
    mined = mine_pairs([group], pairing)
    assert (mined.pairs, mined.dropped["unscorable"]) == ((), 2)
    equal = make_group([Rollout((LEFT, UP), (0.0, 0.3)), Rollout((RIGHT, UP), (0.1, 0.1 + 0.1))])
    assert mine_pairs([equal], pairing).dropped["equal"] == 1
    twins = make_group([Rollout((LEFT, UP), (0.0, 1.0)), Rollout((LEFT, UP), (0.0, 0.0))])
    mined = mine_pairs([twins], pairing)
    assert (mined.pairs, mined.dropped["identical"]) == ((), 1 if by == "trajectory" else 0)
    broken = tuple(
        replace(member, trajectory=replace(member.trajectory, rows=() if index else member.trajectory.rows))
        for index, member in enumerate(twins.members)
    )
    mined = mine_pairs([replace(twins, members=broken)], pairing)
    assert (mined.pairs, mined.dropped["tokenless"]) == ((), 1)
    assert mine_pairs([], pairing).pairs == ()


def test_trajectories_of_other_tasks_and_duplicate_ids_are_refused(
    make_group: MakeGroup, make_trajectory: Make
) -> None:
    group = make_group([Rollout((LEFT, UP), (0.0, 1.0))])
    stray = ScoredTrajectory(make_trajectory(task="elsewhere", name="stray"), (1.0,))
    with pytest.raises(TrainingError, match="'stray' of task 'elsewhere' is in a group of task 'task'"):
        mine_pairs([replace(group, members=(*group.members, stray))], PairSettings())
    with pytest.raises(TrainingError, match="two trajectories of one iteration have the id 'w0'"):
        mine_pairs([group, group], PairSettings())


ROLLOUTS = st.lists(
    st.builds(
        Rollout,
        st.tuples(st.sampled_from([LEFT, RIGHT, UP]), st.sampled_from([LEFT, RIGHT, UP])),
        st.none() | st.tuples(st.sampled_from([0.0, 0.5]), st.sampled_from([0.0, 0.25, 1.0])),
    ),
    max_size=6,
)


@pytest.mark.parametrize("by", ["trajectory", "turn"])
def test_mining_is_symmetric_and_independent_of_order(make_group: MakeGroup, by: str) -> None:
    """Negated rewards turn every pair round, and the order of members changes nothing."""

    @settings(max_examples=60, deadline=None)
    @given(ROLLOUTS, st.sampled_from([0.0, 0.3]), st.randoms(use_true_random=False))
    def holds(rollouts: list[Rollout], margin: float, random: Random) -> None:
        pairing = PairSettings(by=by, min_margin=margin)  # type: ignore[arg-type]
        group = make_group(rollouts)
        mined = mine_pairs([group], pairing)
        shuffled = replace(group, members=tuple(random.sample(group.members, len(group.members))))
        assert mine_pairs([shuffled], pairing) == mined
        negated = tuple(
            replace(
                member, turn_rewards=None if member.turn_rewards is None else tuple(-r for r in member.turn_rewards)
            )
            for member in group.members
        )
        swapped = mine_pairs([replace(group, members=negated)], pairing)
        assert swapped.dropped == mined.dropped
        ends = sorted((*reversed(pair.id.split(" > ")), pair.margin or 0.0) for pair in swapped.pairs)
        expected = sorted((*pair.id.split(" > "), pair.margin or 0.0) for pair in mined.pairs)
        assert [item[:2] for item in ends] == [item[:2] for item in expected]
        assert [item[2] for item in ends] == pytest.approx([item[2] for item in expected])
        assert all(pair.margin is not None and pair.margin > margin for pair in mined.pairs)

    holds()
