"""A small world of numbered states with a known answer: every value of every policy is computed, not estimated.

Time matters: an attempt ends after ``horizon`` turns, so the value of a state depends on the turns that are left.
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
    """S states, A actions, H turns at most."""

    transitions: Floats
    """``(S, A, S)``: probability of each next state; rows sum to 1."""
    rewards: Floats
    """``(S, A, S)``: what the step earns."""
    is_final: Bools
    """``(S,)``: True = the attempt is over once it is here."""
    starts: tuple[int, ...]
    """The first state of each task."""
    horizon: int
    potentials: Floats
    """``(S,)``: Φ, how near the goal is, in [0, 1]."""
    names: tuple[str, ...]
    """Of the states."""
    actions: tuple[str, ...]
    """Their names."""
    outcomes: Floats
    """``(S, A, S)``: ``transitions``, cumulated over the last axis."""


class Walk(NamedTuple):
    """N attempts side by side; places after the end of an attempt hold its last state and action 0."""

    states: Ints
    """``(N, H + 1)``"""
    actions: Ints
    """``(N, H)``"""
    rewards: Floats
    """``(N, H)``, 0 after the end."""
    lengths: Ints
    """``(N,)``: turns that were made."""


def state_values(mdp: TabularMdp, policy: Floats) -> Floats:
    """``(H + 1, S)``: what the policy still earns, exactly, in state s before turn t; 0 where it is over.

    ``policy``: ``(S, A)``, probabilities.
    """
    values = np.zeros((mdp.horizon + 1, len(mdp.is_final)))
    earned = (mdp.transitions * mdp.rewards).sum(axis=2)
    for turn in range(mdp.horizon - 1, -1, -1):
        ahead = earned + mdp.transitions @ values[turn + 1]
        values[turn] = np.where(mdp.is_final, 0.0, (policy * ahead).sum(axis=1))
    return values


def optimal_policy(mdp: TabularMdp) -> Floats:
    """``(S, A)``: the best stationary policy, greedy in a discounted world without end; ties are shared equally.

    A discount of .95 makes it hurry, which is what a limit on turns asks for.
    """
    values = np.zeros(len(mdp.is_final))
    earned = (mdp.transitions * mdp.rewards).sum(axis=2)
    for _ in range(500):
        worth = earned + 0.95 * mdp.transitions @ values
        values = np.where(mdp.is_final, 0.0, worth.max(axis=1))
    is_best = worth >= worth.max(axis=1, keepdims=True) - 1e-9
    chosen: Floats = is_best / is_best.sum(axis=1, keepdims=True)
    return chosen


def walk(mdp: TabularMdp, policy: Floats, rng: np.random.Generator, *, states: Ints, turns: Ints) -> Walk:
    """Attempts that go on from ``states`` ``(N,)``, in which ``turns`` ``(N,)`` turns were made already.

    ``actions`` and ``rewards`` hold the new turns only, from place 0.
    """
    count = len(states)
    path = np.repeat(states[:, None], mdp.horizon + 1, axis=1)
    actions, rewards = np.zeros((count, mdp.horizon), dtype=np.int64), np.zeros((count, mdp.horizon))
    lengths = np.zeros(count, dtype=np.int64)
    choices = policy.cumsum(axis=1)
    live = np.flatnonzero(~mdp.is_final[states] & (turns < mdp.horizon))
    step = 0
    while len(live):
        here = path[live, step]
        chosen = _drawn(choices[here], rng)
        there = _drawn(mdp.outcomes[here, chosen], rng)
        actions[live, step] = chosen
        rewards[live, step] = mdp.rewards[here, chosen, there]
        path[live, step + 1 :] = there[:, None]
        lengths[live] += 1
        step += 1
        live = live[~mdp.is_final[there] & (turns[live] + step < mdp.horizon)]
    return Walk(path, actions, rewards, lengths)


def _drawn(cumulated: Floats, rng: np.random.Generator) -> Ints:
    """``(N,)``: one index for each row of cumulated probabilities."""
    uniform = rng.random((len(cumulated), 1)) * cumulated[:, -1:]
    drawn: Ints = (uniform >= cumulated).sum(axis=1)
    return drawn
