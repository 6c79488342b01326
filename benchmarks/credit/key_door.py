"""The key-door world: fetch the key, go to the door, open it. Six turns, with detours, idle turns and one trap.

Each task is a corridor of five cells with key, start and door in other cells. Tasks share no states, so a policy
learns each of them separately.
"""

from typing import NamedTuple

import numpy as np

from benchmarks.credit.mdp import TabularMdp

CELLS = 5
ACTIONS = ("left", "right", "take", "open", "look")
HORIZON = 10
SLIP = 0.1
"""Probability that a move fails, so that a turn can be lost without being wrong."""
_STATES = 2 * CELLS + 2
"""States of a task: each cell with and without the key, success, alarm."""
_SUCCESS, _ALARM = 2 * CELLS, 2 * CELLS + 1


class Layout(NamedTuple):
    """Cells of key, start and door."""

    key: int
    start: int
    door: int


LAYOUTS = (Layout(1, 2, 4), Layout(3, 2, 0), Layout(2, 0, 4), Layout(2, 4, 0))


def key_door() -> TabularMdp:
    """The world. Opening the door with the key earns 1; opening it without sets off the alarm and ends the episode.

    Looking, taking a key that is not there and moving into a wall do nothing. The potential is the completed share
    of the shortest solution.
    """
    count = _STATES * len(LAYOUTS)
    transitions = np.zeros((count, len(ACTIONS), count))
    rewards = np.zeros((count, len(ACTIONS), count))
    is_final = np.zeros(count, dtype=np.bool_)
    potentials = np.zeros(count)
    for number, layout in enumerate(LAYOUTS):
        first = number * _STATES
        longest = max(_remaining_turns(layout, state) for state in range(_SUCCESS))
        for state in range(_STATES):
            remaining = longest if state == _ALARM else _remaining_turns(layout, state)
            potentials[first + state] = 1.0 - remaining / longest
            for action, name in enumerate(ACTIONS):
                slip = SLIP if name in ("left", "right") else 0.0
                transitions[first + state, action, first + _next_state(layout, state, name)] += 1.0 - slip
                transitions[first + state, action, first + state] += slip
        rewards[first + layout.door + CELLS, ACTIONS.index("open"), first + _SUCCESS] = 1.0
        is_final[[first + _SUCCESS, first + _ALARM]] = True
    return TabularMdp(
        transitions,
        rewards,
        is_final,
        tuple(number * _STATES + layout.start for number, layout in enumerate(LAYOUTS)),
        HORIZON,
        potentials,
        tuple(f"{number}:{_name(state)}" for number in range(len(LAYOUTS)) for state in range(_STATES)),
        ACTIONS,
        transitions.cumsum(axis=2),
    )


def _next_state(layout: Layout, state: int, action: str) -> int:
    """The next state of a move that does not slip."""
    if state >= _SUCCESS:
        return state
    cell, has_key = state % CELLS, state >= CELLS
    if action == "open" and cell == layout.door:
        return _SUCCESS if has_key else _ALARM
    if action == "take" and cell == layout.key:
        has_key = True
    step = {"left": -1, "right": 1}.get(action, 0)
    return min(max(cell + step, 0), CELLS - 1) + CELLS * has_key


def _remaining_turns(layout: Layout, state: int) -> int:
    """Turns of the shortest solution from a state other than the alarm."""
    if state == _SUCCESS:
        return 0
    cell = state % CELLS
    if state >= CELLS:
        return abs(cell - layout.door) + 1
    return abs(cell - layout.key) + 1 + abs(layout.key - layout.door) + 1


def _name(state: int) -> str:
    if state >= _SUCCESS:
        return "success" if state == _SUCCESS else "alarm"
    return f"{state % CELLS}{' with key' if state >= CELLS else ''}"
