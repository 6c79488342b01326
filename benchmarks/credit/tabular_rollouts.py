"""Rollouts in a tabular world as the records that estimators read: turns, state hashes, tokens, measured values.

A state and an action are one token each, so the tokens that a model writes are the actions.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from benchmarks.credit.mdp import Floats, Ints, Rollouts, TabularMdp, sample_rollouts
from upturn.records import Observation, Task, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training import ScoredGroup, ScoredTrajectory, StateValue

_STATE_TOKENS = 100
"""Added to a state to make its token."""
_FINAL_VALUE = StateValue(0.0, None)


class SampledGroups(NamedTuple):
    """Groups and their cost."""

    groups: tuple[ScoredGroup, ...]
    rollouts: Rollouts
    """Those of all groups in order."""
    tokens: int
    """Sampled actions, with those of continuations."""

    def states_and_actions(self) -> tuple[Ints, Ints]:
        """States and actions of all turns in the order of the groups' advantages; both ``(N,)``."""
        mask = self.rollouts.mask()
        return self.rollouts.states[:, :-1][mask], self.rollouts.actions[mask]


def sample_groups(
    mdp: TabularMdp, policy: Floats, rng: np.random.Generator, *, shape: tuple[int, int], continuations: int = 0
) -> SampledGroups:
    """Groups on consecutive tasks, the first of which is drawn.

    ``shape``: number and size of groups. ``continuations``: per state, to measure its value; 0 = none.
    """
    count, size = shape
    first = int(rng.integers(len(mdp.starts)))
    tasks = [(first + group) % len(mdp.starts) for group in range(count)]
    starts = np.repeat([mdp.starts[task] for task in tasks], size)
    rollouts = sample_rollouts(mdp, policy, rng, states=starts, turns=np.zeros(len(starts), dtype=np.int64))
    tokens = int(rollouts.lengths.sum())
    values: list[tuple[StateValue, ...] | None] = [None] * len(starts)
    if continuations:
        measured = _measure_values(mdp, policy, rollouts, rng, continuations=continuations)
        values, tokens = list(measured.values), tokens + measured.tokens
    members = [_scored(mdp, rollouts, index, values[index]) for index in range(len(starts))]
    groups = tuple(
        ScoredGroup(_task(task), tuple(members[group * size : (group + 1) * size]))
        for group, task in enumerate(tasks)
    )
    return SampledGroups(groups, rollouts, tokens)


def exact_changes(mdp: TabularMdp, values: Floats, rollouts: Rollouts) -> Floats:
    """``(N, H)``: r_t + V(s_{t+1}) − V(s_t) of each turn, from exact ``values`` ``(H + 1, S)``."""
    turns = np.arange(mdp.horizon)
    before, after = rollouts.states[:, :-1], rollouts.states[:, 1:]
    changes: Floats = rollouts.rewards + values[turns + 1, after] - values[turns, before]
    return changes


class _MeasuredValues(NamedTuple):
    values: tuple[tuple[StateValue, ...], ...]
    """By rollout, one per state."""
    tokens: int


def _measure_values(
    mdp: TabularMdp, policy: Floats, rollouts: Rollouts, rng: np.random.Generator, *, continuations: int
) -> _MeasuredValues:
    """Rollouts with the same history share its value."""
    indices: dict[tuple[bytes, bytes], int] = {}
    states, turns, rollout_indices = [], [], []
    for path, actions, length in zip(rollouts.states, rollouts.actions, rollouts.lengths, strict=True):
        state_indices = []
        for turn in range(length):
            history = (path[: turn + 1].tobytes(), actions[:turn].tobytes())
            if history not in indices:
                indices[history] = len(indices)
                states.append(path[turn])
                turns.append(turn)
            state_indices.append(indices[history])
        rollout_indices.append(state_indices)
    repeated = [np.repeat(np.array(values, dtype=np.int64), continuations) for values in (states, turns)]
    continued = sample_rollouts(mdp, policy, rng, states=repeated[0], turns=repeated[1])
    means = continued.rewards.sum(axis=1).reshape(-1, continuations).mean(axis=1).tolist()
    return _MeasuredValues(
        tuple(
            (*(StateValue(means[index], continuations) for index in state_indices), _FINAL_VALUE)
            for state_indices in rollout_indices
        ),
        int(continued.lengths.sum()),
    )


def _scored(
    mdp: TabularMdp, rollouts: Rollouts, index: int, values: tuple[StateValue, ...] | None
) -> ScoredTrajectory:
    """The rollout at ``index`` as a trajectory with id ``index``."""
    length = int(rollouts.lengths[index])
    states, actions = rollouts.states[index, : length + 1].tolist(), rollouts.actions[index, :length].tolist()
    steps = list(zip(states[:-1], actions, strict=True))
    tokens = tuple(token for state, action in steps for token in (_STATE_TOKENS + state, action))
    trajectory = Trajectory(
        str(index),
        _task(mdp.starts.index(states[0])).id,
        "tabular@1",
        tuple(_turn(mdp.names[state], mdp.actions[action]) for state, action in steps),
        Observation(mdp.names[states[-1]]),
        "finished" if mdp.is_final[states[-1]] else "step_limit",
        "sampled",
        (TokenRow(tokens, _spans(length), ()),),
    )
    return ScoredTrajectory(
        trajectory, tuple(rollouts.rewards[index, :length].tolist()), values, tuple(mdp.potentials[states].tolist())
    )


@cache
def _task(number: int) -> Task:
    return Task(f"errand/{number}", "open the door", "errand", "key-door")


@cache
def _turn(state: str, action: str) -> Turn:
    return Turn(Observation(state), action, None, state_hash=state)


@cache
def _spans(length: int) -> tuple[WrittenSpan, ...]:
    return tuple(WrittenSpan(turn, 2 * turn + 1, 2 * turn + 2) for turn in range(length))
