"""State values by continuing attempts: right where known, shared with the history, missing where unjudged."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import pytest
import torch

from upturn.agents import Limits
from upturn.environments.office.kit import OfficeKit
from upturn.loop.fleet import Fleet, Purpose
from upturn.loop.service import judge
from upturn.loop.values import Continuations, continued, measure_values, with_values
from upturn.records import AgentVersion, Evaluation, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory, StateValue
from upturn.training.advantages import MonteCarloDelta
from upturn.training.row import written_count

NANO = AgentVersion("nano", "base", "local_model", model="nano", parameters={"temperature": 1.0})
LIMITS = Limits(max_turns=10, max_tokens=240, max_action_tokens=40)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    """The shipped model in the office."""
    return Fleet(OfficeKit(), LIMITS)


def score(_: Trajectory, evaluation: Evaluation) -> float | None:
    return evaluation.score


def _groups(fleet: Fleet, purpose: Purpose, families: Sequence[str], attempts: int) -> list[ScoredGroup]:
    tasks = list(islice(fleet.kit.tasks(seed=3, split="train", families=families), len(families)))
    groups = []
    for task in tasks:
        made = fleet.attempt([(NANO, task, number) for number in range(attempts)], purpose)
        scores = [judge(fleet.kit.verifier, task, each).score for each in made]
        groups.append(
            ScoredGroup(
                task,
                tuple(
                    ScoredTrajectory(each, None if value is None else (*(0.0 for _ in each.turns[1:]), value))
                    for each, value in zip(made, scores, strict=True)
                ),
            )
        )
    return groups


def test_a_greedy_model_earns_from_every_state_what_it_earned(fleet: Fleet) -> None:
    """Nothing is left to chance, so every state is worth the outcome and no turn changed anything."""
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(fleet, purpose, ["mail_file", "call_off"], 1)
    found = measure_values(fleet, NANO, groups, Purpose("greedy/values", 1, 0.0), how=Continuations(2, score))
    for group in found.groups:
        (member,) = group.members
        assert member.turn_rewards is not None
        value = StateValue(member.turn_rewards[-1], 2)
        assert member.state_values == (*[value] * len(member.trajectory.turns), StateValue(0.0, None))
        assert MonteCarloDelta()(group).turns == ((0.0,) * len(member.trajectory.turns),)
    assert any(sum(group.members[0].turn_rewards or ()) > 0 for group in groups)


def test_attempts_that_share_a_history_share_its_continuations(fleet: Fleet) -> None:
    groups = _groups(fleet, Purpose("sampled", 0, 1.0), ["call_off"], 4)
    how = Continuations(3, score)
    found = continued(fleet, NANO, groups, Purpose("sampled/values", 0, 1.0), how=how)
    (members,) = found.returns
    histories = {
        (group.task.id, turn, member.trajectory.rows[0].token_ids[: member.trajectory.rows[0].spans[turn].start])
        for group in groups
        for member in group.members
        for turn in range(len(member.trajectory.turns))
    }
    assert found.attempts == 3 * len(histories)
    assert len(histories) < sum(len(member.trajectory.turns) for member in groups[0].members)
    assert len({member[0] for member in members if member is not None}) == 1
    assert found.tokens > 0
    assert found == continued(fleet, NANO, groups, Purpose("sampled/values", 0, 1.0), how=how)
    assert found != continued(fleet, NANO, groups, Purpose("sampled/values", 1, 1.0), how=how)


def test_rewards_are_discounted_by_the_turns_they_are_away(fleet: Fleet) -> None:
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(fleet, purpose, ["mail_file"], 1)
    ((states,),) = continued(fleet, NANO, groups, purpose, how=Continuations(1, lambda *_: 1.0, gamma=0.5)).returns
    assert states is not None
    count = len(groups[0].members[0].trajectory.turns)
    assert states == tuple((0.5 ** (count - 1 - turn),) for turn in range(count))


def test_continuations_are_rewarded_for_all_that_their_attempt_wrote(fleet: Fleet) -> None:
    """A greedy attempt costs the same from each of its states, however little of it was written from there on."""
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(fleet, purpose, ["call_off"], 1)
    attempt = groups[0].members[0].trajectory
    how = Continuations(1, lambda trajectory, _: -float(written_count(trajectory)))
    found = continued(fleet, NANO, groups, purpose, how=how)
    assert len(attempt.turns) >= 3
    assert found.returns == ((((-float(written_count(attempt)),),) * len(attempt.turns),),)


def test_unscorable_members_are_not_continued_and_missing_judgements_are_left_out(fleet: Fleet) -> None:
    (group,) = _groups(fleet, Purpose("greedy", 0, temperature=0.0), ["mail_file"], 2)
    first, second = group.members
    mixed = replace(group, members=(replace(first, turn_rewards=None), second))
    asked: list[int] = []

    def every_other(_: Trajectory, __: Evaluation) -> float | None:
        asked.append(1)
        return 0.25 if len(asked) % 2 else None

    purpose = Purpose("values", 0, 0.0)
    found = measure_values(fleet, NANO, [mixed], purpose, how=Continuations(2, every_other))
    unscorable, scored = found.groups[0].members
    assert unscorable.state_values is None
    assert scored.state_values == (
        *[StateValue(0.25, 1)] * len(second.trajectory.turns),
        StateValue(0.0, None),
    )
    nothing = continued(fleet, NANO, [mixed], purpose, how=Continuations(2, lambda *_: None))
    assert nothing.missing == nothing.attempts == 2 * len(second.trajectory.turns)
    unmeasured = with_values(second, [()] * len(second.trajectory.turns))
    assert unmeasured.state_values == (*[None] * len(second.trajectory.turns), StateValue(0.0, None))
