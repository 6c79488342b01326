"""Exact values of a small world, compared with the sum over all paths and with sampled rollouts."""

from itertools import product

import numpy as np
import pytest

from benchmarks.credit.key_door import ACTIONS, HORIZON, LAYOUTS, key_door
from benchmarks.credit.mdp import TabularMdp, optimal_policy, sample_rollouts, state_values
from benchmarks.credit.policy import policy_of_skill, softmax, success_rate
from benchmarks.credit.tabular_rollouts import exact_changes


def _coin_world() -> TabularMdp:
    """Two rooms and an end: action 0 moves on with probability .75 and earns 2, action 1 stays and earns 1."""
    transitions, rewards = np.zeros((3, 2, 3)), np.zeros((3, 2, 3))
    for room in (0, 1):
        transitions[room, 0, room + 1], transitions[room, 0, room] = 0.75, 0.25
        transitions[room, 1, room] = 1.0
        rewards[room, 0, room + 1], rewards[room, 1, room] = 2.0, 1.0
    transitions[2, :, 2] = 1.0
    is_final = np.array([False, False, True])
    return TabularMdp(
        transitions,
        rewards,
        is_final,
        (0,),
        3,
        np.zeros(3),
        ("a", "b", "end"),
        ("go", "stay"),
        transitions.cumsum(2),
    )


def test_values_are_the_sum_over_every_path() -> None:
    mdp = _coin_world()
    policy = np.array([[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]])
    total = 0.0
    for actions, states in product(product(range(2), repeat=3), product(range(3), repeat=3)):
        probability, reward, state = 1.0, 0.0, 0
        for action, following in zip(actions, states, strict=True):
            probability *= policy[state, action] * mdp.transitions[state, action, following]
            reward += 0.0 if mdp.is_final[state] else mdp.rewards[state, action, following]
            state = following
        total += probability * reward
    values = state_values(mdp, policy)
    assert values[0, 0] == pytest.approx(total, abs=1e-12)
    # One turn before the end: .5 · .75 · 2 + .5 · 1 in the first room, .25 · .75 · 2 + .75 · 1 in the second.
    assert values[2].tolist() == pytest.approx([1.25, 1.125, 0.0])
    assert values[3].tolist() == [0.0, 0.0, 0.0]


def test_changes_of_value_sum_to_the_return_minus_the_first_value() -> None:
    mdp = key_door()
    policy = policy_of_skill(mdp, 0.5)
    rollouts = sample_rollouts(
        mdp, policy, np.random.default_rng(0), states=np.full(50, mdp.starts[1]), turns=np.zeros(50, int)
    )
    values = state_values(mdp, policy)
    changes = exact_changes(mdp, values, rollouts)
    assert (changes * rollouts.mask()).sum(1) == pytest.approx(
        rollouts.rewards.sum(1) - values[0, mdp.starts[1]], abs=1e-12
    )


def test_rollouts_agree_with_exact_values() -> None:
    """40,000 rollouts from the middle of an episode: off by more than 5 standard errors once in a million seeds."""
    mdp = key_door()
    policy = policy_of_skill(mdp, 0.5)
    state, turn, count = mdp.starts[2], 3, 40_000
    rollouts = sample_rollouts(
        mdp, policy, np.random.default_rng(1), states=np.full(count, state), turns=np.full(count, turn)
    )
    value = state_values(mdp, policy)[turn, state]
    assert rollouts.rewards.sum(1).mean() == pytest.approx(value, abs=5 * np.sqrt(value * (1 - value) / count))
    assert rollouts.lengths.max() == HORIZON - turn
    assert (rollouts.states[:, 0] == state).all()


def test_rollout_from_a_final_state_has_no_turn() -> None:
    mdp = key_door()
    end = int(np.flatnonzero(mdp.is_final)[0])
    rollouts = sample_rollouts(
        mdp, optimal_policy(mdp), np.random.default_rng(0), states=np.array([end]), turns=np.array([0])
    )
    assert (rollouts.lengths[0], rollouts.rewards.sum()) == (0, 0.0)


def test_optimal_policy_beats_every_deterministic_one() -> None:
    mdp = _coin_world()
    best = state_values(mdp, optimal_policy(mdp))[0, 0]
    for choice in product(range(2), repeat=2):
        assert state_values(mdp, np.eye(2)[[*choice, 0]])[0, 0] <= best + 1e-12


def test_every_task_takes_six_turns_and_ends_at_the_door() -> None:
    mdp = key_door()
    assert np.allclose(mdp.transitions.sum(2), 1.0)
    best = optimal_policy(mdp).argmax(1)
    for start, layout in zip(mdp.starts, LAYOUTS, strict=True):
        state, potentials, actions = start, [mdp.potentials[start]], []
        while not mdp.is_final[state]:
            actions.append(ACTIONS[best[state]])
            rewards = mdp.rewards[state, best[state]]
            state = int(mdp.transitions[state, best[state]].argmax())
            potentials.append(mdp.potentials[state])
        assert len(actions) == 6
        assert (actions.count("take"), actions[-1], rewards.max()) == (1, "open", 1.0)
        assert potentials == sorted(potentials)
        assert potentials[-1] == 1.0
        assert mdp.names[state].endswith("success")
        door = state - (10 - layout.door)
        alarm = int(mdp.transitions[door, ACTIONS.index("open")].argmax())
        assert (mdp.names[alarm][2:], mdp.rewards[door].max(), mdp.potentials[alarm]) == ("alarm", 0.0, 0.0)


def test_policies_have_the_requested_skill() -> None:
    mdp = key_door()
    for success in (0.04, 0.5, 0.9):
        policy = policy_of_skill(mdp, success)
        assert success_rate(mdp, policy) == pytest.approx(success, abs=1e-6)
        assert (policy > 0).all()
    assert success_rate(mdp, optimal_policy(mdp)) > 0.999
    assert success_rate(mdp, softmax(np.zeros((len(mdp.names), 5)))) < 0.005
