"""Turns of one state compared: by hand, by what must hold, and on recorded trajectories with published figures."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.errors import TrainingError
from upturn.records import Observation, Task, Trajectory, Turn
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.advantages import GroupRelative, StateAnchored, anchor_groups

MakeGroup = Callable[..., ScoredGroup]
MakeMember = Callable[..., ScoredTrajectory]
RECORDED = Path(__file__).parents[4] / "shared" / "data" / "tau_bench_gpt4o_airline.json"


def test_outcome_and_state_credit_add_up(make_group: MakeGroup, make_member: MakeMember) -> None:
    group = make_group(
        [
            make_member([0.0, 1.0], states="ab"),
            make_member([0.0, 0.0, 0.0], states="aba"),
            make_member([0.0, 0.0], states="ac"),
        ]
    )
    advantages = StateAnchored(gamma=0.5, turn_weight=2.0)(group)
    # A^E: returns 1, 0, 0 less 1/3. Returns to go in a: .5, 0, 0, 0 (mean .125); in b: 1, 0 (.5); in c: alone.
    assert advantages.turns[0] == pytest.approx((2 / 3 + 2 * 0.375, 2 / 3 + 2 * 0.5))
    assert advantages.turns[1] == pytest.approx((-1 / 3 - 2 * 0.125, -1 / 3 - 2 * 0.5, -1 / 3 - 2 * 0.125))
    assert advantages.turns[2] == pytest.approx((-1 / 3 - 2 * 0.125, -1 / 3))
    assert advantages.returns == (0.5, 0.0, 0.0)


def test_outcome_credit_counts_each_trajectory_once(make_group: MakeGroup, make_member: MakeMember) -> None:
    group = make_group([make_member([1.0], states="a"), make_member([0.0] * 9, states="abcdefghi")])
    advantages = StateAnchored(turn_weight=1e-12)(group)
    assert advantages.turns[0] == pytest.approx((0.5,))
    assert advantages.turns[1] == pytest.approx((-0.5,) * 9)


def test_scaling_divides_both_parts_by_their_deviation(make_group: MakeGroup, make_member: MakeMember) -> None:
    group = make_group([make_member([6.0], states="a"), make_member([3.0], states="a")])
    advantages = StateAnchored(is_scaled=True)(group)
    # (6, 3) has the sample deviation 1.5·√2; both parts are ±1.5.
    assert advantages.turns[0] == pytest.approx((2 / math.sqrt(2),))
    assert advantages.turns[1] == pytest.approx((-2 / math.sqrt(2),))


def test_missing_members_are_excluded_and_need_no_hash(make_group: MakeGroup, make_member: MakeMember) -> None:
    group = make_group([make_member([1.0], states="a"), make_member(None), make_member([0.0], states="a")])
    assert StateAnchored()(group).turns == ((1.0,), (0.0,), (-1.0,))


def test_a_group_of_one_has_only_state_credit(make_group: MakeGroup, make_member: MakeMember) -> None:
    assert StateAnchored()(make_group([make_member([1.0], states="a")])).turns == ((0.0,),)
    # It met state a twice, with a smaller return-to-go the second time.
    assert StateAnchored()(make_group([make_member([1.0, 0.0], states="aa")])).turns == ((0.5, -0.5),)


def test_missing_hashes_are_refused_with_the_cure(make_group: MakeGroup) -> None:
    with pytest.raises(TrainingError, match=r"turn 0 of trajectory 't' has no state hash.*Info\.state_hash"):
        StateAnchored()(make_group([[1.0], [0.0]]))


def test_hashes_that_never_repeat_are_refused_with_the_cure(make_group: MakeGroup, make_member: MakeMember) -> None:
    group = make_group([make_member([1.0], states="a"), make_member([0.0], states="b")])
    with pytest.raises(TrainingError, match=r"no two turns of the 2 trajectories of task 'task'.*times, ids"):
        StateAnchored()(group)


def test_observations_can_identify_states(make_group: MakeGroup) -> None:
    advantages = StateAnchored(anchor="observation")(make_group([[1.0], [0.0]]))
    assert advantages.turns == ((1.0,), (-1.0,))
    assert StateAnchored(anchor="observation").needs == frozenset()
    assert StateAnchored().needs == {"state_hashes"}


drawn_walks = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(-9, 9).map(float)), min_size=1, max_size=5),
    min_size=1,
    max_size=6,
)


def _members(make_member: MakeMember, drawn: Sequence[Sequence[tuple[str, float]]]) -> list[ScoredTrajectory]:
    """Trajectories of one task start in one state."""
    return [
        make_member([0.0, *(reward for _, reward in item)], states="s" + "".join(state for state, _ in item))
        for item in drawn
    ]


@given(drawn_walks)
def test_each_state_sums_to_zero(
    make_group: MakeGroup, make_member: MakeMember, drawn: list[list[tuple[str, float]]]
) -> None:
    group = make_group(_members(make_member, drawn))
    both, outcome = StateAnchored(gamma=0.9)(group).turns, GroupRelative()(group).turns
    for places in anchor_groups(group).values():
        turn_credits = [both[member][turn] - outcome[member][0] for member, turn in places]
        assert math.fsum(turn_credits) == pytest.approx(0.0, abs=1e-9)


@given(st.data(), drawn_walks)
def test_order_of_members_does_not_matter(
    make_group: MakeGroup,
    make_member: MakeMember,
    data: st.DataObject,
    drawn: list[list[tuple[str, float]]],
) -> None:
    members = _members(make_member, drawn)
    order = data.draw(st.permutations(range(len(members))))
    straight = StateAnchored(gamma=0.9)(make_group(members)).turns
    shuffled = StateAnchored(gamma=0.9)(make_group([members[place] for place in order])).turns
    assert shuffled == tuple(straight[place] for place in order)


def test_recorded_airline_trajectories_give_the_published_figures() -> None:
    """γ = .95, ω = 1, the last observation as anchor; the figures come with the data."""
    if not RECORDED.is_file():
        pytest.skip(f"the recorded trajectories are not at {RECORDED}")
    groups = _airline_groups(json.loads(RECORDED.read_text(encoding="utf-8")))
    anchors = [(group, places) for group in groups for places in anchor_groups(group, "observation").values()]
    sizes = [len(places) for _, places in anchors]
    steps = sum(sizes)
    assert (len(anchors), steps) == (1802, 2454)
    assert round(steps / len(anchors), 3) == 1.362
    assert round(sum(size for size in sizes if size > 1) / steps, 3) == 0.383
    across = sum(len(places) for _, places in anchors if len({place.member for place in places}) > 1)
    assert round(across / steps, 3) == 0.370
    informative = [places for group, places in anchors if _has_signal(group, places)]
    assert (len(informative), round(sum(map(len, informative)) / steps, 3)) == (47, 0.077)
    moved, silent_outcome = 0, 0
    published = StateAnchored(gamma=0.95, anchor="observation")
    for group in groups:
        both = published(group).turns
        outcome = GroupRelative()(group)
        for turn_credits, episode in zip(both, outcome.turns, strict=True):
            moved += sum(abs(value - episode[-1]) > 1e-12 for value in turn_credits)
            silent_outcome += sum(abs(value) > 1e-12 for value in turn_credits) if not any(episode) else 0
    assert round(moved / steps, 3) == 0.190
    assert silent_outcome == 58


def _has_signal(group: ScoredGroup, places: Sequence[Any]) -> bool:
    """Successful and failed trajectories share this state and call different tools from it."""
    members = [group.members[place.member] for place in places]
    rewards = {sum(member.turn_rewards or ()) for member in members}
    calls = {member.trajectory.turns[place.turn].text for member, place in zip(members, places, strict=True)}
    return len(rewards) > 1 and len(calls) > 1


def _airline_groups(recorded: Sequence[Any]) -> list[ScoredGroup]:
    members: dict[int, list[ScoredTrajectory]] = {}
    for row in recorded:
        turns = []
        for before, message in zip([{}, *row["traj"]], row["traj"], strict=False):
            if message["role"] == "assistant":
                calls = [
                    [call["function"]["name"], call["function"]["arguments"]]
                    for call in message.get("tool_calls") or []
                ]
                anchor = json.dumps([before.get("content"), before.get("name")])
                turns.append(Turn(Observation(anchor), json.dumps(calls), None))
        name = f"{row['task_id']}/{row['trial']}"
        trajectory = Trajectory(
            name, str(row["task_id"]), "gpt-4o@1", tuple(turns), Observation(""), "finished", "rendered"
        )
        rewards = (*(0.0 for _ in turns[1:]), float(row["reward"]))
        members.setdefault(row["task_id"], []).append(ScoredTrajectory(trajectory, rewards))
    return [
        ScoredGroup(Task(str(task), "", "airline", "tau"), tuple(task_members))
        for task, task_members in members.items()
    ]
