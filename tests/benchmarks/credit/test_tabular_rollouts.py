"""Attempts as records: what estimators see is what was walked, and learning from each of them finds the way."""

import numpy as np
import pytest

from benchmarks.credit.crediting import credit
from benchmarks.credit.estimator import CONTENDERS, Contender
from benchmarks.credit.key_door import key_door
from benchmarks.credit.key_door_comparison import KeyDoorSettings, practise
from benchmarks.credit.mdp import state_values
from benchmarks.credit.measurements import Choice
from benchmarks.credit.policy import SoftmaxPolicy, policy_of_skill
from benchmarks.credit.tabular_rollouts import play

NAMES = [contender.name for contender in CONTENDERS]


def test_records_say_what_was_walked() -> None:
    mdp = key_door()
    played = play(mdp, policy_of_skill(mdp, 0.5), np.random.default_rng(0), shape=(5, 3))
    assert [group.task.id for group in played.groups[:4]] == [f"errand/{(3 + each) % 4}" for each in range(4)]
    states, actions = played.written_turns()
    turns = [turn for group in played.groups for member in group.members for turn in member.trajectory.turns]
    assert [turn.state_hash for turn in turns] == [mdp.names[state] for state in states]
    assert [turn.text for turn in turns] == [mdp.actions[action] for action in actions]
    assert played.tokens == len(turns)
    for group in played.groups:
        for member in group.members:
            (row,) = member.trajectory.rows
            written = [row.token_ids[span.start] for span in row.spans]
            assert written == [mdp.actions.index(turn.text) for turn in member.trajectory.turns]
            assert len(row.token_ids) == 2 * len(member.trajectory.turns)
            assert member.potentials is not None
            assert member.turn_rewards is not None
            assert len(member.potentials) == len(member.turn_rewards) + 1
            succeeded = member.trajectory.final_observation.text.endswith("success")
            assert sum(member.turn_rewards) == float(succeeded)


def test_measured_values_are_near_the_exact_ones_and_shared_with_the_history() -> None:
    """Of 400 continuations a mean is off by more than 6 standard errors once in 500 million states."""
    mdp = key_door()
    policy = policy_of_skill(mdp, 0.5)
    played = play(mdp, policy, np.random.default_rng(0), shape=(1, 6), continuations=400)
    exact = state_values(mdp, policy)
    firsts = set()
    for place, member in enumerate(played.groups[0].members):
        assert member.state_values is not None
        *before, last = member.state_values
        firsts.add(before[0])
        for turn, value in enumerate(before):
            assert value is not None
            truth = exact[turn, played.walk.states[place, turn]]
            assert value.count == 400
            assert value.mean == pytest.approx(truth, abs=6 * np.sqrt(truth * (1 - truth) / 400) + 1e-12)
        assert last is not None
        assert (last.mean, last.count) == (0.0, None)
    assert len(firsts) == 1


def test_continuations_count_as_sampled_tokens() -> None:
    mdp = key_door()
    policy = policy_of_skill(mdp, 0.5)
    alone = play(mdp, policy, np.random.default_rng(0), shape=(2, 4))
    measured = play(mdp, policy, np.random.default_rng(0), shape=(2, 4), continuations=1)
    assert (measured.walk.actions == alone.walk.actions).all()
    # Each continuation has a turn at least, and no two histories are measured twice.
    assert measured.tokens > alone.tokens + 2
    histories = {
        (group.task.id, member.trajectory.rows[0].token_ids[: 2 * turn + 1])
        for group in alone.groups
        for member in group.members
        for turn in range(len(member.trajectory.turns))
    }
    assert measured.tokens >= alone.tokens + len(histories)


def test_credit_comes_in_the_order_of_the_turns() -> None:
    mdp = key_door()
    played = play(mdp, policy_of_skill(mdp, 0.5), np.random.default_rng(0), shape=(1, 8))
    states, _ = played.written_turns()
    found = credit(Contender("trajectory"), played.groups)
    assert len(found) == len(states)
    place = 0
    for member in played.groups[0].members:
        assert member.turn_rewards is not None
        own = found[place : place + len(member.turn_rewards)]
        assert len(set(own.tolist())) == 1
        assert (own[0] > 0) == (sum(member.turn_rewards) > 0)
        place += len(member.turn_rewards)


def test_a_policy_steps_up_the_gradient_by_its_learning_rate() -> None:
    """Adam's first step has the size of the learning rate wherever there is a gradient."""
    policy = SoftmaxPolicy(np.full((2, 3), 1 / 3), 0.25)
    policy.learn(np.array([0, 0]), np.array([1, 2]), np.array([1.0, -1.0]))
    # A·(1 − π) for what was done: +1 for action 1, −1 for action 2; what is subtracted for π cancels out.
    assert policy.logits - np.log(1 / 3) == pytest.approx(np.array([[0, 0.25, -0.25], [0, 0, 0]]), abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_reaches_the_best_value_by_every_estimator(name: str) -> None:
    """The best possible is .9995; from .2, with as many actions as it takes."""
    contender = next(each for each in CONTENDERS if each.name == name)
    settings = KeyDoorSettings(first_success=0.2, target=0.99, budget=400_000, shown=0)
    choice = Choice(0.3, 4, 16 if contender.continuations else 0, 0.0)
    course = practise(contender, 0, choice, settings)
    assert course.is_reached
    assert course.curve[0][1] == pytest.approx(0.2, abs=1e-5)
    assert course.curve[-1][1] >= 0.99
