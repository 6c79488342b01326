"""State values by continuing trajectories: exact where known, shared with the history, missing without verdicts."""

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
from upturn.loop.rollouts.policy_worker import score_trajectory
from upturn.loop.rollouts.state_values import (
    ContinuationSpec,
    add_state_values,
    count_tokens_after_states,
    measure_values,
    sample_continuations,
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


def _groups(runtime: AgentRuntime, purpose: Purpose, families: Sequence[str], group_size: int) -> list[ScoredGroup]:
    tasks = list(islice(runtime.kit.tasks(seed=3, split="train", families=families), len(families)))
    groups = []
    for task in tasks:
        trajectories = runtime.rollout([(NANO, task, number) for number in range(group_size)], purpose)
        scores = [verify(runtime.kit.verifier, task, item).score for item in trajectories]
        groups.append(
            ScoredGroup(
                task,
                tuple(
                    ScoredTrajectory(each, None if value is None else (*(0.0 for _ in each.turns[1:]), value))
                    for each, value in zip(trajectories, scores, strict=True)
                ),
            )
        )
    return groups


def test_every_state_of_a_greedy_model_has_the_value_of_the_outcome(runtime: AgentRuntime) -> None:
    """Nothing is random, so every state has the value of the outcome and no turn an advantage."""
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(runtime, purpose, ["mail_file", "call_off"], 1)
    measured = measure_values(
        runtime, NANO, groups, Purpose("greedy/values", 1, 0.0), spec=ContinuationSpec(2, score)
    )
    for group in measured.groups:
        (member,) = group.members
        assert member.turn_rewards is not None
        value = StateValue(member.turn_rewards[-1], 2)
        assert member.state_values == (*[value] * len(member.trajectory.turns), StateValue(0.0, None))
        assert MonteCarloDelta()(group).turns == ((0.0,) * len(member.trajectory.turns),)
    assert any(sum(group.members[0].turn_rewards or ()) > 0 for group in groups)


def test_trajectories_with_a_shared_history_share_its_continuations(runtime: AgentRuntime) -> None:
    groups = _groups(runtime, Purpose("sampled", 0, 1.0), ["call_off"], 4)
    spec = ContinuationSpec(3, score)
    found = sample_continuations(runtime, NANO, groups, Purpose("sampled/values", 0, 1.0), spec=spec)
    (members,) = found.returns
    histories = {
        (group.task.id, turn, member.trajectory.rows[0].token_ids[: member.trajectory.rows[0].spans[turn].start])
        for group in groups
        for member in group.members
        for turn in range(len(member.trajectory.turns))
    }
    assert found.continuations == 3 * len(histories)
    assert len(histories) < sum(len(member.trajectory.turns) for member in groups[0].members)
    assert len({member[0] for member in members if member is not None}) == 1
    assert found.tokens > 0
    assert found == sample_continuations(runtime, NANO, groups, Purpose("sampled/values", 0, 1.0), spec=spec)
    assert found != sample_continuations(runtime, NANO, groups, Purpose("sampled/values", 1, 1.0), spec=spec)


def test_the_tokens_of_continuations_are_estimated_by_those_after_each_state(runtime: AgentRuntime) -> None:
    """A greedy trajectory sampled twice: its states count once."""
    groups = _groups(runtime, Purpose("greedy", 0, temperature=0.0), ["call_off"], 2)
    ((first, second),) = (group.members for group in groups)
    assert first.trajectory.rows == second.trajectory.rows
    lengths = [0] * len(first.trajectory.turns)
    for row in first.trajectory.rows:
        for span in row.spans:
            lengths[span.turn] += span.stop - span.start
    assert len(lengths) > 1
    assert count_tokens_after_states(runtime, groups) == sum(
        (turn + 1) * length for turn, length in enumerate(lengths)
    )
    unscorable = [replace(group, members=(replace(first, turn_rewards=None),)) for group in groups]
    assert count_tokens_after_states(runtime, unscorable) == 0


def test_rewards_are_discounted_by_their_distance_in_turns(runtime: AgentRuntime) -> None:
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(runtime, purpose, ["mail_file"], 1)
    ((states,),) = sample_continuations(
        runtime, NANO, groups, purpose, spec=ContinuationSpec(1, lambda *_: 1.0, gamma=0.5)
    ).returns
    assert states is not None
    count = len(groups[0].members[0].trajectory.turns)
    assert states == tuple((0.5 ** (count - 1 - turn),) for turn in range(count))


def test_the_reward_of_a_continuation_depends_on_the_whole_trajectory(runtime: AgentRuntime) -> None:
    """A greedy trajectory has the same written tokens from each of its states."""
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(runtime, purpose, ["call_off"], 1)
    trajectory = groups[0].members[0].trajectory
    spec = ContinuationSpec(1, lambda whole, _: -float(written_count(whole)))
    found = sample_continuations(runtime, NANO, groups, purpose, spec=spec)
    assert len(trajectory.turns) >= 3
    assert found.returns == ((((-float(written_count(trajectory)),),) * len(trajectory.turns),),)


class PaidErrands(ErrandsEnvironment):
    """Gives 0.25 for each action, in addition to the verifier's reward."""

    def step(self, action: Action) -> Step:
        return super().step(action)._replace(reward=0.25)


class PaidKit(ErrandsKit):
    def environment(self, task: Task) -> PaidErrands:
        return PaidErrands()


def test_turn_rewards_of_the_environment_count_after_each_state() -> None:
    runtime = AgentRuntime(PaidKit(), LIMITS)
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(runtime, purpose, ["call_off"], 1)
    trajectory = groups[0].members[0].trajectory
    count = len(trajectory.turns)
    assert count >= 3
    member = score_trajectory(trajectory, 1.0)
    assert member.turn_rewards == (*[0.25] * (count - 1), 1.25)
    spec = ContinuationSpec(1, lambda *_: 1.0, gamma=0.5)
    (measured,) = measure_values(runtime, NANO, [replace(groups[0], members=(member,))], purpose, spec=spec).groups
    # A greedy model is deterministic, so no turn has an advantage.
    expected = [
        math.fsum(0.5**turn * reward for turn, reward in enumerate(member.turn_rewards[first:]))
        for first in range(count)
    ]
    values = measured.members[0].state_values
    assert values is not None
    assert [value.mean for value in values if value is not None] == pytest.approx([*expected, 0.0])
    assert MonteCarloDelta(gamma=0.5)(measured).turns[0] == pytest.approx([0.0] * count)


def test_potentials_are_the_recorded_ones_or_none(runtime: AgentRuntime) -> None:
    (group,) = _groups(runtime, Purpose("greedy", 0, temperature=0.0), ["call_off"], 1)
    trajectory = group.members[0].trajectory
    turns = tuple(
        replace(turn, potential=index / len(trajectory.turns)) for index, turn in enumerate(trajectory.turns)
    )
    member = score_trajectory(replace(trajectory, turns=turns), 1.0)
    assert member.potentials == (*(turn.potential for turn in turns), 0.0)
    gap = (replace(turns[0], potential=None), *turns[1:])
    assert score_trajectory(replace(trajectory, turns=gap), 1.0).potentials is None
    shaped = advantage_of(AdvantageSettings("turn", is_shaped=True))
    with pytest.raises(TrainingError, match=r"no potentials to shape its rewards by; let the environment give"):
        shaped(replace(group, members=(score_trajectory(replace(trajectory, turns=gap), 1.0),)))
    assert score_trajectory(trajectory, None).turn_rewards is None
    assert score_trajectory(replace(trajectory, turns=()), 1.0).turn_rewards is None


def test_unscorable_members_are_not_continued_and_missing_rewards_are_excluded(runtime: AgentRuntime) -> None:
    (group,) = _groups(runtime, Purpose("greedy", 0, temperature=0.0), ["mail_file"], 2)
    first, second = group.members
    mixed = replace(group, members=(replace(first, turn_rewards=None), second))
    calls: list[int] = []

    def every_other(_: Trajectory, __: Evaluation) -> float | None:
        calls.append(1)
        return 0.25 if len(calls) % 2 else None

    purpose = Purpose("values", 0, 0.0)
    measured = measure_values(runtime, NANO, [mixed], purpose, spec=ContinuationSpec(2, every_other))
    unscorable, scored = measured.groups[0].members
    assert unscorable.state_values is None
    assert scored.state_values == (
        *[StateValue(0.25, 1)] * len(second.trajectory.turns),
        StateValue(0.0, None),
    )
    nothing = sample_continuations(runtime, NANO, [mixed], purpose, spec=ContinuationSpec(2, lambda *_: None))
    assert nothing.missing == nothing.continuations == 2 * len(second.trajectory.turns)
    unmeasured = add_state_values(second, [()] * len(second.trajectory.turns))
    assert unmeasured.state_values == (*[None] * len(second.trajectory.turns), StateValue(0.0, None))


class LostErrands(ErrandsEnvironment):
    """Restores no state."""

    def restore(self, snapshot: object) -> None:
        raise RuntimeError("boom in restore")


class HalfLostErrands(ErrandsEnvironment):
    """Restores only the initial state."""

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


def test_broken_continuations_are_counted_and_their_cause_is_reported(runtime: AgentRuntime) -> None:
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(runtime, purpose, ["call_off"], 1)
    trajectory = groups[0].members[0].trajectory
    count = 2 * len(trajectory.turns)
    with pytest.raises(WorldError) as caught:
        sample_continuations(
            AgentRuntime(BrokenKit(LostErrands), LIMITS), NANO, groups, purpose, spec=ContinuationSpec(2, score)
        )
    assert str(caught.value) == (
        f"{count} of {count} continuations ended in environment_error, so the first state of trajectory "
        f"{trajectory.id!r} has no value; the first error was RuntimeError: boom in restore; fix the environment's "
        "restore(), reset() or step(), or let snapshot() raise NotImplementedError to have actions repeated instead"
    )


def test_a_later_state_with_broken_continuations_is_not_measured(runtime: AgentRuntime) -> None:
    """Broken continuations are missing, although the verifier of errands calls them failures."""
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(runtime, purpose, ["call_off"], 1)
    (whole,) = sample_continuations(runtime, NANO, groups, purpose, spec=ContinuationSpec(2, score)).returns[0]
    found = sample_continuations(
        AgentRuntime(BrokenKit(HalfLostErrands), LIMITS), NANO, groups, purpose, spec=ContinuationSpec(2, score)
    )
    (states,) = found.returns[0]
    assert whole is not None
    assert states is not None
    later = len(whole) - 1
    assert later >= 2
    assert states == (whole[0], *[()] * later)
    assert found.missing == 2 * later


def test_missing_rewards_without_broken_continuations_are_not_an_error(
    runtime: AgentRuntime,
) -> None:
    purpose = Purpose("greedy", 0, temperature=0.0)
    groups = _groups(runtime, purpose, ["mail_file"], 1)
    found = sample_continuations(runtime, NANO, groups, purpose, spec=ContinuationSpec(2, lambda *_: None))
    assert found.missing == found.continuations
