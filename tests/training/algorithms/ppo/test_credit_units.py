"""What a critic values: written tokens only, in the order of turns, however they lie in rows."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.records import Observation, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training import policy_rows
from upturn.training.algorithms.ppo import CreditSettings, StepKind
from upturn.training.algorithms.ppo.credit import estimate_credit
from upturn.training.algorithms.ppo.credit_units import RolloutSteps, rollout_steps
from upturn.training.algorithms.ppo.gae import generalised_advantages

Make = Callable[..., Trajectory]
SPANS = ((0, 2, 4), (1, 6, 7), (2, 9, 12))
"""Two, one and three tokens; tokens 0, 1, 4, 5, 7 and 8 are observations."""


def _steps(trajectory: Trajectory, rewards: Sequence[float], kind: StepKind = "turn") -> RolloutSteps:
    return rollout_steps(policy_rows(trajectory, [0.0] * len(trajectory.turns)), rewards, kind)


def test_a_turn_is_a_step_that_starts_with_its_first_written_token(make_trajectory: Make) -> None:
    steps = _steps(make_trajectory(range(12), SPANS), (1.0, 0.0, 3.0))
    (row,) = steps.valued_rows()
    assert row.positions.tolist() == [2, 6, 9]
    assert steps.steps.tolist() == [0, 0, 1, 2, 2, 2]
    assert steps.rewards.tolist() == [1.0, 0.0, 3.0]
    (weighted,) = steps.weighted_rows(np.array([0.5, -1.0, 2.0])[steps.steps])
    assert weighted.positions.tolist() == [2, 3, 6, 9, 10, 11]
    assert weighted.weights.tolist() == [0.5, 0.5, -1.0, 2.0, 2.0, 2.0]


def test_by_token_each_written_token_is_a_step_and_the_last_of_a_turn_has_its_reward(make_trajectory: Make) -> None:
    steps = _steps(make_trajectory(range(12), SPANS), (1.0, 0.5, 3.0), "token")
    (row,) = steps.valued_rows()
    assert row.positions.tolist() == [2, 3, 6, 9, 10, 11]
    assert steps.rewards.tolist() == [0.0, 1.0, 0.5, 0.0, 0.0, 3.0]
    assert steps.steps.tolist() == [0, 1, 2, 3, 4, 5]


def test_values_and_returns_are_at_the_first_tokens_of_steps(make_trajectory: Make) -> None:
    steps = _steps(make_trajectory(range(12), SPANS), (0.0, 0.0, 0.0))
    (row,) = steps.valued_rows(np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 3.0]))
    assert row.old_logprobs is not None
    assert row.old_logprobs.tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert row.weights.tolist() == [1.0, 2.0, 3.0]
    assert row.computed_length == 9


def _in_rows(trajectory: Trajectory, first: TokenRow, second: TokenRow) -> Trajectory:
    return replace(trajectory, rows=(first, replace(second, fork_cause="history_changed")))


@pytest.mark.parametrize("kind", ["turn", "token"])
def test_splitting_a_rollout_into_rows_changes_no_step_whatever_the_order_of_the_rows(
    make_trajectory: Make, kind: StepKind
) -> None:
    whole = make_trajectory(range(12), SPANS)
    early = TokenRow(tuple(range(7)), (WrittenSpan(0, 2, 4), WrittenSpan(1, 6, 7)), (-1.0,) * 3)
    late = TokenRow((0, 4, 7, 8, 9, 10, 11), (WrittenSpan(2, 4, 7),), (-1.0,) * 3)
    rewards, values = (1.0, 0.0, 3.0), np.array([0.5, 1.0, 1.5, 0.2, 0.4, 0.6])
    weights = {}
    for trajectory in (whole, _in_rows(whole, early, late), _in_rows(whole, late, early)):
        steps = _steps(trajectory, rewards, kind)
        true_values = values[: len(steps.starts)]
        credit = estimate_credit(steps, true_values, CreditSettings(kind, gamma=0.9, trace=0.8))
        by_token = {
            int(row.token_ids[position]): float(weight)
            for row in steps.weighted_rows(credit.advantages[steps.steps])
            for position, weight in zip(row.positions, row.weights, strict=True)
        }
        weights[trajectory.rows] = by_token
        back = steps.values_of(
            [row.old_logprobs for row in steps.valued_rows(true_values) if row.old_logprobs is not None]
        )
        assert back.tolist() == pytest.approx(true_values.tolist())
    first, *others = weights.values()
    assert len(first) == 6
    assert all(other == first for other in others)


def test_a_turn_in_two_rows_is_one_step_that_starts_in_the_first(make_trajectory: Make) -> None:
    """The agent thought, its history changed, and it wrote the action behind another prompt."""
    thought = TokenRow((1, 2, 3), (WrittenSpan(0, 1, 3),), (-1.0, -1.0))
    action = TokenRow((1, 9, 4), (WrittenSpan(0, 2, 3),), (-1.0,))
    steps = _steps(_in_rows(make_trajectory((1, 2, 3), ((0, 1, 3),)), thought, action), (2.0,))
    (row,) = steps.valued_rows()
    assert (row.token_ids.tolist(), row.positions.tolist()) == ([1, 2, 3], [1])
    assert [row.weights.tolist() for row in steps.weighted_rows(np.array([0.5])[steps.steps])] == [
        [0.5, 0.5],
        [0.5],
    ]


@pytest.mark.parametrize("kind", ["turn", "token"])
def test_rewards_of_turns_without_tokens_belong_to_the_step_before(make_trajectory: Make, kind: StepKind) -> None:
    """Turn 0 wrote nothing, and nothing is before it: no step could change what it earned."""
    trajectory = make_trajectory(range(6), ((1, 1, 2), (3, 4, 5)), turns=5)
    assert _steps(trajectory, (9.0, 1.0, 0.25, 2.0, 0.5), kind).rewards.tolist() == [1.25, 2.5]


def _trajectory(row: TokenRow, turns: int) -> Trajectory:
    """As ``make_trajectory``, for tests that draw."""
    return Trajectory(
        id="t",
        task_id="task",
        agent_version="nano@1",
        turns=(Turn(Observation(""), "", None),) * turns,
        final_observation=Observation(""),
        outcome="finished",
        origin="sampled",
        rows=(row,),
        temperature=1.0,
    )


@given(st.integers(0, 2**32 - 1))
def test_by_token_it_equals_masked_estimation_over_the_whole_row(seed: int) -> None:
    """Against all tokens of the row with a mask, whatever values are on observations."""
    rng = np.random.default_rng(seed)
    row = TokenRow(tuple(range(12)), tuple(WrittenSpan(*span) for span in SPANS), (-1.0,) * 6)
    trajectory = _trajectory(row, turns=3)
    rewards, values = rng.normal(size=3), rng.normal(size=12)
    mask = np.isin(np.arange(12), [2, 3, 6, 9, 10, 11])
    values[~mask] = rng.choice([np.nan, np.inf, 7.0], size=6)
    on_last = np.zeros(12)
    on_last[[3, 6, 11]] = rewards
    slow = generalised_advantages(on_last, values, mask, gamma=0.9, trace=0.8)
    steps = _steps(trajectory, rewards.tolist(), "token")
    credit = estimate_credit(steps, values[mask], CreditSettings("token", gamma=0.9, trace=0.8))
    assert credit.advantages.tolist() == slow.advantages[mask].tolist()
    assert credit.returns.tolist() == slow.returns[mask].tolist()


@given(st.integers(0, 2**32 - 1))
def test_one_token_turns_are_the_same_steps_by_turn_and_by_token(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spans = tuple(WrittenSpan(turn, 2 * turn + 1, 2 * turn + 2) for turn in range(4))
    trajectory = _trajectory(TokenRow(tuple(range(8)), spans, (-1.0,) * 4), turns=4)
    rewards, values = rng.normal(size=4).tolist(), rng.normal(size=4)
    credit = [
        estimate_credit(_steps(trajectory, rewards, kind), values, CreditSettings(kind, gamma=0.9, trace=0.7))
        for kind in ("turn", "token")
    ]
    assert credit[0].advantages.tolist() == credit[1].advantages.tolist()
    assert credit[0].returns.tolist() == credit[1].returns.tolist()
