"""State values by continuing attempts: right where known, shared with the history, missing where unjudged."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import pytest
import torch

from benchmarks.errands import MODEL, ErrandsEnvironment
from benchmarks.errands.kit import ErrandsKit
from upturn.config import Limits
from upturn.environments import Step
from upturn.environments.environment import verify
from upturn.errors import TrainingError, WorldError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.rollouts.policy_worker import scored
from upturn.loop.rollouts.state_values import (
    Continuations,
    continued,
    measure_values,
    with_values,
    written_from_states,
)
from upturn.records import Action, AgentVersion, Evaluation, Task, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory, StateValue
from upturn.training.advantages import AdvantageSettings, MonteCarloDelta, advantage_of
from upturn.training.row import written_count

NANO = AgentVersion("nano", "base", "local_model", model=MODEL, parameters={"temperature": 1.0})
LIMITS = Limits(max_turns=10, max_tokens=240, max_action_tokens=40)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def runtime() -> AgentRuntime:
    """The shipped model in errands."""
    return AgentRuntime(ErrandsKit(), LIMITS)


def score(_: Trajectory, evaluation: Evaluation) -> float | None:
    return evaluation.score


def _groups(runtime: AgentRuntime, purpose: Purpose, families: Sequence[str], attempts: int) -> list[ScoredGroup]:
    tasks = list(islice(runtime.kit.tasks(seed=3, split="train", families=families), len(families)))
    groups = []
    for task in tasks:
        made = runtime.attempt([(NANO, task, number) for number in range(attempts)], purpose)
        scores = [verify(runtime.kit.verifier, task, each).score for each in made]
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


def test_a_greedy_model_earns_from_every_state_what_it_earned(runtime: AgentRuntime) -> None:
    """Nothing is left to chance, so every state is worth the outcome and no turn changed anything."""
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(runtime, purpose, ["mail_file", "call_off"], 1)
    found = measure_values(runtime, NANO, groups, Purpose("greedy/values", 1, 0.0), how=Continuations(2, score))
    for group in found.groups:
        (member,) = group.members
        assert member.turn_rewards is not None
        value = StateValue(member.turn_rewards[-1], 2)
        assert member.state_values == (*[value] * len(member.trajectory.turns), StateValue(0.0, None))
        assert MonteCarloDelta()(group).turns == ((0.0,) * len(member.trajectory.turns),)
    assert any(sum(group.members[0].turn_rewards or ()) > 0 for group in groups)


def test_attempts_that_share_a_history_share_its_continuations(runtime: AgentRuntime) -> None:
    groups = _groups(runtime, Purpose("sampled", 0, 1.0), ["call_off"], 4)
    how = Continuations(3, score)
    found = continued(runtime, NANO, groups, Purpose("sampled/values", 0, 1.0), how=how)
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
    assert found == continued(runtime, NANO, groups, Purpose("sampled/values", 0, 1.0), how=how)
    assert found != continued(runtime, NANO, groups, Purpose("sampled/values", 1, 1.0), how=how)


def test_what_continuations_would_write_is_what_attempts_wrote_from_their_states_on(runtime: AgentRuntime) -> None:
    """Twice a greedy attempt: its states are there once."""
    groups = _groups(runtime, Purpose("greedy", 0, temperature=0.0), ["call_off"], 2)
    ((first, second),) = (group.members for group in groups)
    assert first.trajectory.rows == second.trajectory.rows
    lengths = [0] * len(first.trajectory.turns)
    for row in first.trajectory.rows:
        for span in row.spans:
            lengths[span.turn] += span.stop - span.start
    assert len(lengths) > 1
    assert written_from_states(runtime, groups) == sum((turn + 1) * length for turn, length in enumerate(lengths))
    unscorable = [replace(group, members=(replace(first, turn_rewards=None),)) for group in groups]
    assert written_from_states(runtime, unscorable) == 0


def test_rewards_are_discounted_by_the_turns_they_are_away(runtime: AgentRuntime) -> None:
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(runtime, purpose, ["mail_file"], 1)
    ((states,),) = continued(
        runtime, NANO, groups, purpose, how=Continuations(1, lambda *_: 1.0, gamma=0.5)
    ).returns
    assert states is not None
    count = len(groups[0].members[0].trajectory.turns)
    assert states == tuple((0.5 ** (count - 1 - turn),) for turn in range(count))


def test_continuations_are_rewarded_for_all_that_their_attempt_wrote(runtime: AgentRuntime) -> None:
    """A greedy attempt costs the same from each of its states, however little of it was written from there on."""
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(runtime, purpose, ["call_off"], 1)
    attempt = groups[0].members[0].trajectory
    how = Continuations(1, lambda trajectory, _: -float(written_count(trajectory)))
    found = continued(runtime, NANO, groups, purpose, how=how)
    assert len(attempt.turns) >= 3
    assert found.returns == ((((-float(written_count(attempt)),),) * len(attempt.turns),),)


class PaidErrands(ErrandsEnvironment):
    """Pays a quarter for each action, beside what the judge says."""

    def step(self, action: Action) -> Step:
        return super().step(action)._replace(reward=0.25)


class PaidKit(ErrandsKit):
    def environment(self, task: Task) -> PaidErrands:
        return PaidErrands()


def test_what_the_environment_gives_for_single_turns_counts_from_each_state_on() -> None:
    runtime = AgentRuntime(PaidKit(), LIMITS)
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(runtime, purpose, ["call_off"], 1)
    trajectory = groups[0].members[0].trajectory
    count = len(trajectory.turns)
    assert count >= 3
    member = scored(trajectory, 1.0)
    assert member.turn_rewards == (*[0.25] * (count - 1), 1.25)
    how = Continuations(1, lambda *_: 1.0, gamma=0.5)
    (measured,) = measure_values(runtime, NANO, [replace(groups[0], members=(member,))], purpose, how=how).groups
    # A greedy model leaves nothing to chance, so no turn changed anything.
    expected = [
        math.fsum(0.5**turn * reward for turn, reward in enumerate(member.turn_rewards[first:]))
        for first in range(count)
    ]
    values = measured.members[0].state_values
    assert values is not None
    assert [value.mean for value in values if value is not None] == pytest.approx([*expected, 0.0])
    assert MonteCarloDelta(gamma=0.5)(measured).turns[0] == pytest.approx([0.0] * count)


def test_potentials_are_those_recorded_or_none_at_all(runtime: AgentRuntime) -> None:
    (group,) = _groups(runtime, Purpose("greedy", 0, temperature=0.0), ["call_off"], 1)
    trajectory = group.members[0].trajectory
    given = tuple(
        replace(turn, potential=index / len(trajectory.turns)) for index, turn in enumerate(trajectory.turns)
    )
    member = scored(replace(trajectory, turns=given), 1.0)
    assert member.potentials == (*(turn.potential for turn in given), 0.0)
    gap = (replace(given[0], potential=None), *given[1:])
    assert scored(replace(trajectory, turns=gap), 1.0).potentials is None
    shaped = advantage_of(AdvantageSettings(is_shaped=True))
    with pytest.raises(TrainingError, match=r"no potentials to shape its rewards by; let the environment give"):
        shaped(replace(group, members=(scored(replace(trajectory, turns=gap), 1.0),)))
    assert scored(trajectory, None).turn_rewards is None
    assert scored(replace(trajectory, turns=()), 1.0).turn_rewards is None


def test_unscorable_members_are_not_continued_and_missing_judgements_are_left_out(runtime: AgentRuntime) -> None:
    (group,) = _groups(runtime, Purpose("greedy", 0, temperature=0.0), ["mail_file"], 2)
    first, second = group.members
    mixed = replace(group, members=(replace(first, turn_rewards=None), second))
    asked: list[int] = []

    def every_other(_: Trajectory, __: Evaluation) -> float | None:
        asked.append(1)
        return 0.25 if len(asked) % 2 else None

    purpose = Purpose("values", 0, 0.0)
    found = measure_values(runtime, NANO, [mixed], purpose, how=Continuations(2, every_other))
    unscorable, scored = found.groups[0].members
    assert unscorable.state_values is None
    assert scored.state_values == (
        *[StateValue(0.25, 1)] * len(second.trajectory.turns),
        StateValue(0.0, None),
    )
    nothing = continued(runtime, NANO, [mixed], purpose, how=Continuations(2, lambda *_: None))
    assert nothing.missing == nothing.attempts == 2 * len(second.trajectory.turns)
    unmeasured = with_values(second, [()] * len(second.trajectory.turns))
    assert unmeasured.state_values == (*[None] * len(second.trajectory.turns), StateValue(0.0, None))


class LostErrands(ErrandsEnvironment):
    """Goes back to no state."""

    def restore(self, snapshot: object) -> None:
        raise RuntimeError("boom in restore")


class HalfLostErrands(ErrandsEnvironment):
    """Goes back only to the state in which nothing was done yet."""

    steps = 0

    def step(self, action: Action) -> Step:
        self.steps += 1
        return super().step(action)

    def snapshot(self) -> object:
        return super().snapshot(), self.steps

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, tuple)
        world, steps = snapshot
        if steps:
            raise RuntimeError("boom in restore")
        super().restore(world)


class BrokenKit(ErrandsKit):
    def __init__(self, make: Callable[[], ErrandsEnvironment]) -> None:
        super().__init__()
        self._make = make

    def environment(self, task: Task) -> ErrandsEnvironment:
        return self._make()


def test_continuations_that_broke_are_counted_and_their_cause_is_named(runtime: AgentRuntime) -> None:
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(runtime, purpose, ["call_off"], 1)
    attempt = groups[0].members[0].trajectory
    count = 2 * len(attempt.turns)
    with pytest.raises(WorldError) as caught:
        continued(AgentRuntime(BrokenKit(LostErrands), LIMITS), NANO, groups, purpose, how=Continuations(2, score))
    assert str(caught.value) == (
        f"{count} of {count} continuations ended in environment_error, so the first state of attempt "
        f"{attempt.id!r} has no value; the first broke with RuntimeError: boom in restore; mend the environment's "
        "restore(), reset() or step(), or let snapshot() raise NotImplementedError to have actions repeated instead"
    )


def test_a_later_state_whose_continuations_broke_is_not_measured(runtime: AgentRuntime) -> None:
    """What broke is missing, though the verifier of errands calls it a failure: it says nothing about the state."""
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(runtime, purpose, ["call_off"], 1)
    (whole,) = continued(runtime, NANO, groups, purpose, how=Continuations(2, score)).returns[0]
    found = continued(
        AgentRuntime(BrokenKit(HalfLostErrands), LIMITS), NANO, groups, purpose, how=Continuations(2, score)
    )
    (states,) = found.returns[0]
    assert whole is not None
    assert states is not None
    later = len(whole) - 1
    assert later >= 2
    assert states == (whole[0], *[()] * later)
    assert found.missing == 2 * later


def test_continuations_that_nobody_judged_and_none_of_which_broke_are_no_error_of_the_environment(
    runtime: AgentRuntime,
) -> None:
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(runtime, purpose, ["mail_file"], 1)
    found = continued(runtime, NANO, groups, purpose, how=Continuations(2, lambda *_: None))
    assert found.missing == found.attempts
