"""Rollouts as records, and training with every estimator."""

import numpy as np
import pytest

from benchmarks.credit.estimator import ESTIMATORS, Estimator, turn_credit
from benchmarks.credit.key_door import key_door
from benchmarks.credit.key_door_comparison import KeyDoorSettings, train
from benchmarks.credit.mdp import state_values
from benchmarks.credit.measurements import Hyperparameters
from benchmarks.credit.policy import SoftmaxPolicy, policy_of_skill
from benchmarks.credit.tabular_rollouts import sample_groups

NAMES = [estimator.name for estimator in ESTIMATORS]


def test_records_describe_the_rollouts() -> None:
    mdp = key_door()
    sampled = sample_groups(mdp, policy_of_skill(mdp, 0.5), np.random.default_rng(0), shape=(5, 3))
    assert [group.task.id for group in sampled.groups[:4]] == [f"errand/{(3 + index) % 4}" for index in range(4)]
    states, actions = sampled.states_and_actions()
    turns = [turn for group in sampled.groups for member in group.members for turn in member.trajectory.turns]
    assert [turn.state_hash for turn in turns] == [mdp.names[state] for state in states]
    assert [turn.text for turn in turns] == [mdp.actions[action] for action in actions]
    assert sampled.tokens == len(turns)
    for group in sampled.groups:
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
    sampled = sample_groups(mdp, policy, np.random.default_rng(0), shape=(1, 6), continuations=400)
    exact = state_values(mdp, policy)
    firsts = set()
    for index, member in enumerate(sampled.groups[0].members):
        assert member.state_values is not None
        *before, last = member.state_values
        firsts.add(before[0])
        for turn, value in enumerate(before):
            assert value is not None
            truth = exact[turn, sampled.rollouts.states[index, turn]]
            assert value.count == 400
            assert value.mean == pytest.approx(truth, abs=6 * np.sqrt(truth * (1 - truth) / 400) + 1e-12)
        assert last is not None
        assert (last.mean, last.count) == (0.0, None)
    assert len(firsts) == 1


def test_continuations_count_as_sampled_tokens() -> None:
    mdp = key_door()
    policy = policy_of_skill(mdp, 0.5)
    plain = sample_groups(mdp, policy, np.random.default_rng(0), shape=(2, 4))
    measured = sample_groups(mdp, policy, np.random.default_rng(0), shape=(2, 4), continuations=1)
    assert (measured.rollouts.actions == plain.rollouts.actions).all()
    # Each continuation has at least one turn, and no two histories are measured twice.
    assert measured.tokens > plain.tokens + 2
    histories = {
        (group.task.id, member.trajectory.rows[0].token_ids[: 2 * turn + 1])
        for group in plain.groups
        for member in group.members
        for turn in range(len(member.trajectory.turns))
    }
    assert measured.tokens >= plain.tokens + len(histories)


def test_credit_is_in_the_order_of_the_turns() -> None:
    mdp = key_door()
    sampled = sample_groups(mdp, policy_of_skill(mdp, 0.5), np.random.default_rng(0), shape=(1, 8))
    states, _ = sampled.states_and_actions()
    credit = turn_credit(Estimator("trajectory"), sampled.groups)
    assert len(credit) == len(states)
    start = 0
    for member in sampled.groups[0].members:
        assert member.turn_rewards is not None
        member_credit = credit[start : start + len(member.turn_rewards)]
        assert len(set(member_credit.tolist())) == 1
        assert (member_credit[0] > 0) == (sum(member.turn_rewards) > 0)
        start += len(member.turn_rewards)


def test_policy_steps_up_the_gradient_by_its_learning_rate() -> None:
    """Adam's first step has the size of the learning rate wherever there is a gradient."""
    policy = SoftmaxPolicy(np.full((2, 3), 1 / 3), 0.25)
    policy.step(np.array([0, 0]), np.array([1, 2]), np.array([1.0, -1.0]))
    # A·(1 − π) for what was done: +1 for action 1, −1 for action 2; the terms of π cancel out.
    assert policy.logits - np.log(1 / 3) == pytest.approx(np.array([[0, 0.25, -0.25], [0, 0, 0]]), abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_policy_reaches_the_best_value_with_every_estimator(name: str) -> None:
    """The best possible is .9995; starts at .2, with an ample budget."""
    estimator = next(estimator for estimator in ESTIMATORS if estimator.name == name)
    settings = KeyDoorSettings(initial_success=0.2, target=0.99, budget=400_000, min_actions=0)
    hyperparameters = Hyperparameters(0.3, 4, 16 if estimator.continuations else 0, 0.0)
    run = train(estimator, 0, hyperparameters, settings)
    assert run.is_reached
    assert run.curve[0][1] == pytest.approx(0.2, abs=1e-5)
    assert run.curve[-1][1] >= 0.99
