"""Fetch the key, go to the door, open it: ways of six turns, with detours, idle turns and one trap.

Each task is a corridor of five cells with key, start and door in other places. States of different tasks share
nothing, so a policy learns each errand by itself.
"""

from typing import NamedTuple

import numpy as np

from benchmarks.credit.mdp import TabularMdp

CELLS = 5
ACTIONS = ("left", "right", "take", "open", "look")
HORIZON = 10
SLIP = 0.1
"""Probability that a step does not get off the ground: a turn can be lost without being wrong."""
_STATES = 2 * CELLS + 2
"""Of a task: each cell with and without the key, success, alarm."""
_SUCCESS, _ALARM = 2 * CELLS, 2 * CELLS + 1


class Layout(NamedTuple):
    """Where things are in the corridor."""

    key: int
    start: int
    door: int


LAYOUTS = (Layout(1, 2, 4), Layout(3, 2, 0), Layout(2, 0, 4), Layout(2, 4, 0))


def key_door() -> TabularMdp:
    """The world. Opening the door with the key earns 1; opening it without sets off the alarm and ends the attempt.

    Looking, taking what is not there and walking against a wall do nothing. The potential is the share of the
    shortest way that lies behind.
    """
    count = _STATES * len(LAYOUTS)
    transitions = np.zeros((count, len(ACTIONS), count))
    rewards = np.zeros((count, len(ACTIONS), count))
    is_final = np.zeros(count, dtype=np.bool_)
    potentials = np.zeros(count)
    for number, layout in enumerate(LAYOUTS):
        first = number * _STATES
        for state in range(_STATES):
            potentials[first + state] = 1.0 - _remaining(layout, state) / _farthest(layout)
            for action, name in enumerate(ACTIONS):
                there = _reached(layout, state, name)
                slip = SLIP if name in ("left", "right") else 0.0
                transitions[first + state, action, first + there] += 1.0 - slip
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


def _reached(layout: Layout, state: int, action: str) -> int:
    """The next state where no step slips."""
    if state >= _SUCCESS:
        return state
    cell, has_key = state % CELLS, state >= CELLS
    if action == "open" and cell == layout.door:
        return _SUCCESS if has_key else _ALARM
    if action == "take" and cell == layout.key:
        has_key = True
    step = {"left": -1, "right": 1}.get(action, 0)
    return min(max(cell + step, 0), CELLS - 1) + CELLS * has_key


def _remaining(layout: Layout, state: int) -> int:
    """Turns of the shortest way from here; where there is none any more, those of the farthest state."""
    if state == _ALARM:
        return _farthest(layout)
    if state == _SUCCESS:
        return 0
    cell = state % CELLS
    if state >= CELLS:
        return abs(cell - layout.door) + 1
    return abs(cell - layout.key) + 1 + abs(layout.key - layout.door) + 1


def _farthest(layout: Layout) -> int:
    return max(_remaining(layout, state) for state in range(_SUCCESS))


def _name(state: int) -> str:
    if state >= _SUCCESS:
        return "success" if state == _SUCCESS else "alarm"
    return f"{state % CELLS}{' with key' if state >= CELLS else ''}"
