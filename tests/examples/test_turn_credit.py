"""The script and the library give the same credit in the same environment, and the script trains with it."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from benchmarks.credit.key_door import key_door
from benchmarks.credit.mdp import state_values
from upturn.records import Observation, Task, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training import ScoredGroup, ScoredTrajectory, StateValue
from upturn.training.advantages import AdvantageSettings, advantage_of

PATH = Path(__file__).parents[2] / "examples" / "turn_credit.py"
COUNT = 8


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("turn_credit", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _recorded(
    states: Sequence[int], actions: Sequence[int], reward: float, values: Sequence[float]
) -> ScoredTrajectory:
    """An episode of the script as a trajectory: a state and an action are one token each."""
    turns = tuple(Turn(Observation(""), "", None, state_hash=str(state)) for state in states[: len(actions)])
    tokens = tuple(token for state, action in zip(states, actions, strict=False) for token in (100 + state, action))
    spans = tuple(WrittenSpan(t, 2 * t + 1, 2 * t + 2) for t in range(len(actions)))
    trajectory = Trajectory(
        "t", "x", "a@1", turns, Observation(""), "finished", "sampled", (TokenRow(tokens, spans, ()),)
    )
    return ScoredTrajectory(
        trajectory,
        (*(0.0 for _ in actions[1:]), reward),
        (*(StateValue(value, COUNT) for value in values[:-1]), StateValue(values[-1], None)),
    )


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_credit_equals_the_librarys(script: ModuleType, share: float) -> None:
    policy, rng = script.skilled(share), np.random.default_rng(0)
    for _ in range(5):
        group = [script.play(policy, rng) for _ in range(8)]
        values, _ = script.measure_values(group, policy, rng, COUNT)
        members = tuple(
            _recorded(episode.states, episode.actions, episode.reward, own)
            for episode, own in zip(group, values, strict=True)
        )
        for settings, ours in (
            (AdvantageSettings(), script.trajectory(group)),
            (AdvantageSettings("turn", gamma=0.95), script.by_turn(group)),
            (AdvantageSettings("state", gamma=0.95), script.by_state(group)),
            (AdvantageSettings("tree"), script.by_tree(group)),
            (AdvantageSettings("monte_carlo"), script.by_value(group, values)),
            (AdvantageSettings("divergence"), script.by_divergence(group, values, COUNT)),
        ):
            library = advantage_of(settings)(ScoredGroup(Task("x", "", "f", "e"), members)).turns
            for own, theirs in zip(ours, library, strict=True):
                assert own == pytest.approx(theirs, abs=1e-9), settings.estimator


def test_the_environment_and_its_values_are_those_of_the_benchmark(script: ModuleType) -> None:
    mdp = key_door()
    assert np.allclose(script.P[:10], mdp.transitions[:10, :, :12])
    policy = script.skilled(0.4)
    values = state_values(mdp, np.vstack([policy, *[policy] * (len(mdp.starts) - 1)]))
    assert np.allclose(script.exact_values(policy), values[:, :12])
    assert mdp.starts[0] == script.START


def test_exact_changes_add_up_to_the_return_minus_the_first_value(script: ModuleType) -> None:
    policy = script.skilled(0.5)
    values = script.exact_values(policy)
    episode = script.play(policy, np.random.default_rng(3))
    changes = script.exact_changes([episode], values)
    assert sum(changes) == pytest.approx(episode.reward - values[0, script.START])


def test_equal_numbers_share_their_rank(script: ModuleType) -> None:
    assert script.ranks([0.5, 0.1, 0.5, 0.9]).tolist() == [1.5, 0.0, 1.5, 3.0]


def test_training_reaches_the_target(script: ModuleType) -> None:
    for estimator in (script.trajectory, script.by_state):
        assert 0 < script.train(estimator, seed=0) < 30_000


def test_the_script_is_short() -> None:
    assert len(PATH.read_text(encoding="utf-8").splitlines()) < 200
