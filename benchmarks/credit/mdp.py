"""Tabular MDPs: numbered states whose values under any policy are computed exactly.

An episode ends after ``horizon`` turns, so the value of a state depends on the number of turns that remain.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class TabularMdp:
    """S states, A actions, at most H turns."""

    transitions: Floats
    """``(S, A, S)``: probability of each next state; rows sum to 1."""
    rewards: Floats
    """``(S, A, S)``: reward of the step."""
    is_final: Bools
    """``(S,)``: True = the episode ends in this state."""
    starts: tuple[int, ...]
    """The first state of each task."""
    horizon: int
    potentials: Floats
    """``(S,)``: Φ, progress towards the goal, in [0, 1]."""
    names: tuple[str, ...]
    """Names of the states."""
    actions: tuple[str, ...]
    """Names of the actions."""
    cumulative: Floats
    """``(S, A, S)``: ``transitions``, cumulated over the last axis."""


class Rollouts(NamedTuple):
    """N rollouts; entries after the end of a rollout hold its last state and action 0."""

    states: Ints
    """``(N, H + 1)``"""
    actions: Ints
    """``(N, H)``"""
    rewards: Floats
    """``(N, H)``, 0 after the end."""
    lengths: Ints
    """``(N,)``: number of turns."""

    def mask(self) -> Bools:
        """``(N, H)``: True for turns before the end."""
        return np.arange(self.actions.shape[1]) < self.lengths[:, None]


def state_values(mdp: TabularMdp, policy: Floats) -> Floats:
    """``(H + 1, S)``: the exact value of state s before turn t; 0 in final states and after the last turn.

    ``policy``: ``(S, A)``, probabilities.
    """
    values = np.zeros((mdp.horizon + 1, len(mdp.is_final)))
    expected_rewards = (mdp.transitions * mdp.rewards).sum(axis=2)
    for turn in range(mdp.horizon - 1, -1, -1):
        action_values = expected_rewards + mdp.transitions @ values[turn + 1]
        values[turn] = np.where(mdp.is_final, 0.0, (policy * action_values).sum(axis=1))
    return values


def optimal_policy(mdp: TabularMdp) -> Floats:
    """``(S, A)``: the best stationary policy with a discount and no horizon; ties are shared equally.

    The discount of .95 favours short ways, as a limit on turns does.
    """
    values = np.zeros(len(mdp.is_final))
    expected_rewards = (mdp.transitions * mdp.rewards).sum(axis=2)
    for _ in range(500):
        action_values = expected_rewards + 0.95 * mdp.transitions @ values
        values = np.where(mdp.is_final, 0.0, action_values.max(axis=1))
    is_best = action_values >= action_values.max(axis=1, keepdims=True) - 1e-9
    policy: Floats = is_best / is_best.sum(axis=1, keepdims=True)
    return policy


def sample_rollouts(
    mdp: TabularMdp, policy: Floats, rng: np.random.Generator, *, states: Ints, turns: Ints
) -> Rollouts:
    """Rollouts that continue from ``states`` ``(N,)`` after ``turns`` ``(N,)`` turns.

    ``actions`` and ``rewards`` hold only the new turns, from index 0.
    """
    count = len(states)
    paths = np.repeat(states[:, None], mdp.horizon + 1, axis=1)
    actions, rewards = np.zeros((count, mdp.horizon), dtype=np.int64), np.zeros((count, mdp.horizon))
    lengths = np.zeros(count, dtype=np.int64)
    cumulative_policy = policy.cumsum(axis=1)
    live = np.flatnonzero(~mdp.is_final[states] & (turns < mdp.horizon))
    step = 0
    while len(live):
        current = paths[live, step]
        chosen = _draw(cumulative_policy[current], rng)
        following = _draw(mdp.cumulative[current, chosen], rng)
        actions[live, step] = chosen
        rewards[live, step] = mdp.rewards[current, chosen, following]
        paths[live, step + 1 :] = following[:, None]
        lengths[live] += 1
        step += 1
        live = live[~mdp.is_final[following] & (turns[live] + step < mdp.horizon)]
    return Rollouts(paths, actions, rewards, lengths)


def _draw(cumulative: Floats, rng: np.random.Generator) -> Ints:
    """``(N,)``: one index per row of cumulated probabilities."""
    uniform = rng.random((len(cumulative), 1)) * cumulative[:, -1:]
    indices: Ints = (uniform >= cumulative).sum(axis=1)
    return indices
