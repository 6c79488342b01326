"""A constant reward for each turn changes no advantage where all trajectories have equal lengths."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.records import Observation, Task, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training import RewardComponent, ScoredGroup, ScoredTrajectory, StateValue
from upturn.training.advantages import AdvantageSettings, Estimator, advantage_of, rescaled

MakeGroup = Callable[..., ScoredGroup]

SETTINGS = [
    AdvantageSettings(),
    AdvantageSettings(gamma=0.5),
    AdvantageSettings(baseline="leave_one_out"),
    AdvantageSettings(scale="std"),
    AdvantageSettings(scale="batch_std"),
    AdvantageSettings(scale="whiten"),
    AdvantageSettings(baseline="none", scale="whiten"),
    AdvantageSettings("turn"),
    AdvantageSettings("turn", gamma=0.5, scale="std"),
    AdvantageSettings("turn", is_shaped=True),
    AdvantageSettings("turn", is_shaped=True, gamma=0.5, turn_weight=2.0),
    AdvantageSettings("state"),
    AdvantageSettings("state", gamma=0.5, scale="std"),
    AdvantageSettings("state", anchor="observation"),
    AdvantageSettings("tree"),
    AdvantageSettings("tree", baseline="leave_one_out", turn_weight=1.0),
    AdvantageSettings("monte_carlo"),
    AdvantageSettings("monte_carlo", gamma=0.5, turn_weight=1.0),
    AdvantageSettings("divergence", value_range=1000.0),
    AdvantageSettings("divergence", gamma=0.5, value_range=100.0, turn_weight=1.0),
    AdvantageSettings("components", scale="whiten"),
]
"""Each estimator with each kind of option; ``scale="mean"`` divides by the returns and is meant to change."""


def test_all_estimators_are_covered() -> None:
    assert {settings.estimator for settings in SETTINGS} == set(get_args(Estimator))


@st.composite
def groups(draw: st.DrawFn) -> ScoredGroup:
    """2-5 trajectories of one length; few states, so that trajectories return to a state at another turn."""
    length, size = draw(st.integers(1, 5)), draw(st.integers(2, 5))
    members = [_member(draw, f"t{index}", length) for index in range(size)]
    return ScoredGroup(Task("task", "do it", "toy", "toy"), tuple(members))


def _member(draw: st.DrawFn, name: str, length: int) -> ScoredTrajectory:
    states = [0, *(draw(st.integers(0, 2)) for _ in range(length - 1))]
    turns = tuple(Turn(Observation(f"state {state}"), "", None, state_hash=f"{state}") for state in states)
    tokens = tuple(draw(st.lists(st.integers(0, 1), min_size=2 * length, max_size=2 * length)))
    spans = tuple(WrittenSpan(index, 2 * index + 1, 2 * index + 2) for index in range(length))
    row = TokenRow((7, *tokens), spans, (-1.0,) * length)
    trajectory = Trajectory(name, "task", "nano@1", turns, Observation(""), "finished", "sampled", (row,))
    numbers = st.integers(-8, 8).map(float)
    rewards = tuple(draw(numbers) if draw(st.booleans()) else 0.0 for _ in range(length))
    potentials = (0.0, *(draw(numbers) for _ in range(length)))
    values = (*(StateValue(draw(numbers), 10**6) for _ in range(length)), StateValue(0.0, None))
    components = (RewardComponent("turns", sum(rewards), 1.0), RewardComponent("style", draw(numbers), 0.5))
    return ScoredTrajectory(trajectory, rewards, state_values=values, potentials=potentials, components=components)


def _shifted(group: ScoredGroup, shift: float, gamma: float) -> ScoredGroup:
    """Adds ``shift`` to each turn's reward, and to the states' values what remains of it."""

    def member(scored: ScoredTrajectory) -> ScoredTrajectory:
        assert scored.turn_rewards is not None and scored.state_values is not None
        remaining = [sum(gamma**step for step in range(left)) for left in range(len(scored.turn_rewards), -1, -1)]
        values = tuple(
            None if value is None else replace(value, mean=value.mean + shift * count)
            for value, count in zip(scored.state_values, remaining, strict=True)
        )
        rewards = tuple(reward + shift for reward in scored.turn_rewards)
        assert scored.components is not None
        turns, *others = scored.components
        changed = replace(turns, value=sum(rewards))
        return replace(scored, turn_rewards=rewards, state_values=values, components=(changed, *others))

    return replace(group, members=tuple(member(scored) for scored in group.members))


def _advantages(settings: AdvantageSettings, group: ScoredGroup) -> Sequence[Sequence[float]]:
    advantages = advantage_of(settings)(group)
    (scaled,) = rescaled([group], [advantages], by=settings.scale)
    return scaled.turns


@pytest.mark.parametrize("estimator", SETTINGS, ids=str)
@settings(deadline=None, max_examples=60)
@given(group=groups(), shift=st.sampled_from([1.0, -3.0, 0.25]))
def test_a_constant_reward_per_turn_changes_no_advantage(
    estimator: AdvantageSettings, group: ScoredGroup, shift: float
) -> None:
    plain = _advantages(estimator, group)
    shifted = _advantages(estimator, _shifted(group, shift, estimator.gamma))
    for before, after in zip(plain, shifted, strict=True):
        assert after == pytest.approx(before, abs=1e-6)


TURNS, ITERATIONS = 5, 60


def _trained_success(bonus: float, seed: int) -> float:
    """Success of a policy that learns five binary actions, all of which must be 1; one reward at the end, and
    ``bonus`` for each turn."""
    rng, logits = np.random.default_rng(seed), np.zeros(TURNS)
    estimator = advantage_of(AdvantageSettings())
    for _ in range(ITERATIONS):
        shares = 1.0 / (1.0 + np.exp(-logits))
        actions = rng.random((16, TURNS)) < shares
        members = []
        for index, taken in enumerate(actions):
            turns = (Turn(Observation(""), "", None),) * TURNS
            trajectory = Trajectory(f"{index}", "task", "nano@1", turns, Observation(""), "finished", "sampled")
            rewards = [bonus] * (TURNS - 1) + [bonus + float(taken.all())]
            members.append(ScoredTrajectory(trajectory, tuple(rewards)))
        credit = np.array(estimator(ScoredGroup(Task("task", "", "toy", "toy"), tuple(members))).turns)
        logits += (credit * (actions - shares)).mean(axis=0) * 4.0
    return float(np.prod(1.0 / (1.0 + np.exp(-logits))))


def test_a_bonus_per_turn_does_not_change_what_is_learned() -> None:
    plain, rewarded = ([_trained_success(bonus, seed) for seed in range(10)] for bonus in (0.0, 1.0))
    assert rewarded == pytest.approx(plain, abs=1e-6)
    assert np.mean(plain) > 0.5
