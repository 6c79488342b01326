"""Attempts in a tabular world as the records that estimators see: turns, state hashes, tokens, measured values.

A state and an action are one token each, so the tokens a model writes are the actions taken.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from benchmarks.credit.mdp import Floats, Ints, TabularMdp, Walk, walk
from upturn.records import Observation, Task, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training import ScoredGroup, ScoredTrajectory, StateValue

_STATE_TOKENS = 100
"""Added to a state to make its token."""
_END = StateValue(0.0, None)


class Played(NamedTuple):
    """Groups of attempts, and what they took."""

    groups: tuple[ScoredGroup, ...]
    walk: Walk
    """All of them, group by group."""
    tokens: int
    """Actions that were sampled, those of continuations included."""

    def written_turns(self) -> tuple[Ints, Ints]:
        """States and actions of all turns in the order of the groups' advantages; both ``(N,)``."""
        made = np.arange(self.walk.actions.shape[1]) < self.walk.lengths[:, None]
        return self.walk.states[:, :-1][made], self.walk.actions[made]


def play(
    mdp: TabularMdp, policy: Floats, rng: np.random.Generator, *, shape: tuple[int, int], continuations: int = 0
) -> Played:
    """Groups at tasks that take turns, beginning with any.

    ``shape``: groups and attempts in each. ``continuations``: of each state, to measure its value; 0 = none.
    """
    groups, attempts = shape
    first = int(rng.integers(len(mdp.starts)))
    tasks = [(first + group) % len(mdp.starts) for group in range(groups)]
    starts = np.repeat([mdp.starts[task] for task in tasks], attempts)
    made = walk(mdp, policy, rng, states=starts, turns=np.zeros(len(starts), dtype=np.int64))
    tokens = int(made.lengths.sum())
    values: list[tuple[StateValue, ...] | None] = [None] * len(starts)
    if continuations:
        measured = _measured(mdp, policy, made, rng, continuations=continuations)
        values, tokens = list(measured.values), tokens + measured.tokens
    return Played(
        tuple(
            ScoredGroup(
                _task(task),
                tuple(
                    _scored(mdp, made, _Name(task, place), values[place])
                    for place in range(group * attempts, (group + 1) * attempts)
                ),
            )
            for group, task in enumerate(tasks)
        ),
        made,
        tokens,
    )


def exact_changes(mdp: TabularMdp, values: Floats, made: Walk) -> Floats:
    """``(N, H)``: r_t + V(s_{t+1}) − V(s_t) of each turn that was made, from exact ``values`` ``(H + 1, S)``."""
    turns = np.arange(mdp.horizon)
    before, after = made.states[:, :-1], made.states[:, 1:]
    found: Floats = made.rewards + values[turns + 1, after] - values[turns, before]
    return found


class _Measured(NamedTuple):
    values: tuple[tuple[StateValue, ...], ...]
    """Of the states of each attempt."""
    tokens: int


def _measured(
    mdp: TabularMdp, policy: Floats, made: Walk, rng: np.random.Generator, *, continuations: int
) -> _Measured:
    """Attempts that share a history share its value."""
    places: dict[tuple[bytes, bytes], int] = {}
    states, turns, of_attempt = [], [], []
    for path, actions, length in zip(made.states, made.actions, made.lengths, strict=True):
        own = []
        for turn in range(length):
            history = (path[: turn + 1].tobytes(), actions[:turn].tobytes())
            if history not in places:
                places[history] = len(places)
                states.append(path[turn])
                turns.append(turn)
            own.append(places[history])
        of_attempt.append(own)
    further = [np.repeat(np.array(each, dtype=np.int64), continuations) for each in (states, turns)]
    ahead = walk(mdp, policy, rng, states=further[0], turns=further[1])
    means = ahead.rewards.sum(axis=1).reshape(-1, continuations).mean(axis=1).tolist()
    known = [StateValue(mean, continuations) for mean in means]
    return _Measured(
        tuple((*(known[place] for place in own), _END) for own in of_attempt), int(ahead.lengths.sum())
    )


class _Name(NamedTuple):
    task: int
    place: int


def _scored(mdp: TabularMdp, made: Walk, name: _Name, values: tuple[StateValue, ...] | None) -> ScoredTrajectory:
    length = int(made.lengths[name.place])
    states, actions = made.states[name.place, : length + 1].tolist(), made.actions[name.place, :length].tolist()
    before = list(zip(states[:-1], actions, strict=True))
    trajectory = Trajectory(
        str(name.place),
        _task(name.task).id,
        "tabular@1",
        tuple(_turn(mdp.names[state], mdp.actions[action]) for state, action in before),
        Observation(mdp.names[states[-1]]),
        "finished" if mdp.is_final[states[-1]] else "step_limit",
        "sampled",
        (
            TokenRow(
                tuple(token for state, action in before for token in (_STATE_TOKENS + state, action)),
                _spans(length),
                (),
            ),
        ),
    )
    return ScoredTrajectory(
        trajectory,
        tuple(made.rewards[name.place, :length].tolist()),
        values,
        tuple(mdp.potentials[states].tolist()),
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
