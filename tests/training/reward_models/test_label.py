"""Targets of turns, from outcomes, continuations and potentials."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from upturn.errors import TrainingError
from upturn.records import Trajectory
from upturn.training.reward_models import continuation_targets, outcome_targets, potential_targets

Make = Callable[..., Trajectory]


def test_the_outcome_is_the_target_of_every_turn() -> None:
    assert outcome_targets(3, is_success=True) == (1.0, 1.0, 1.0)
    assert outcome_targets(2, is_success=False) == (0.0, 0.0)


def test_a_turns_target_is_the_success_rate_from_the_state_after_it() -> None:
    """The first state's rate (¾) is of no turn; the last turn's target is what came of it."""
    states = [(1.0, 1.0, 1.0, 0.0), (1.0, 0.0, 0.0, 0.0), ()]
    assert continuation_targets(states, is_success=True) == (0.25, None, 1.0)


def test_a_potential_is_that_of_the_next_state(make_trajectory: Make) -> None:
    plain = make_trajectory((1, 5, 2, 7), ((0, 1, 2), (1, 2, 3), (2, 3, 4)))
    turns = tuple(replace(turn, potential=value) for turn, value in zip(plain.turns, (0.1, 0.4, None), strict=True))
    assert potential_targets(replace(plain, turns=turns), is_success=False) == (0.4, None, 0.0)
    outside = replace(plain, turns=(turns[0], replace(turns[1], potential=1.5), turns[2]))
    with pytest.raises(TrainingError, match=r"trajectory 't' has the potential 1\.5"):
        potential_targets(outside, is_success=False)
