"""Training rows and how they are batched."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.errors import TrainingError
from upturn.records import TokenRow, Trajectory, WrittenSpan
from upturn.training import TrainingRow, policy_rows, supervised_rows
from upturn.training.row import micro_batches, written_count

Make = Callable[..., Trajectory]
QUICK = settings(deadline=None, max_examples=30)


def test_only_written_tokens_carry_weight_each_that_of_its_turn(make_trajectory: Make) -> None:
    trajectory = make_trajectory((1, 5, 6, 2, 9, 7, 2), ((0, 2, 4), (1, 5, 7)), logprobs=(-0.1, -0.2, -0.3, -0.4))
    (row,) = policy_rows(trajectory, (0.5, -2.0))
    assert row.positions.tolist() == [2, 3, 5, 6]
    assert row.weights.tolist() == [0.5, 0.5, -2.0, -2.0]
    assert row.old_logprobs is not None
    assert row.old_logprobs.tolist() == pytest.approx([-0.1, -0.2, -0.3, -0.4])
    assert row.token_ids.tolist() == [1, 5, 6, 2, 9, 7, 2]


def test_policy_gradient_refuses_rendered_rows_by_name_and_sft_takes_them(make_trajectory: Make) -> None:
    rendered = make_trajectory(name="walk", origin="rendered", temperature=None)
    with pytest.raises(TrainingError, match="trajectory 'walk' is 'rendered'"):
        policy_rows(rendered, (1.0,))
    (row,) = supervised_rows([rendered])
    assert row.weights.tolist() == [1.0]
    assert row.old_logprobs is None


def test_policy_gradient_refuses_other_temperatures(make_trajectory: Make) -> None:
    with pytest.raises(TrainingError, match=r"'t' was sampled at temperature 0\.7"):
        policy_rows(make_trajectory(temperature=0.7), (1.0,))


@pytest.mark.parametrize(
    "spans",
    [((0, 0, 2),), ((0, 3, 5),), ((0, 2, 2),), ((0, 2, 4), (1, 3, 4)), ((0, 3, 4), (1, 1, 2))],
    ids=["first token", "past the end", "empty", "overlapping", "descending"],
)
def test_impossible_spans_are_refused_by_name(
    make_trajectory: Make, spans: tuple[tuple[int, int, int], ...]
) -> None:
    with pytest.raises(TrainingError, match="trajectory 't' has written spans"):
        supervised_rows([make_trajectory(spans=spans)])


@pytest.mark.parametrize("logprobs", [(), (-1.0, -1.0), (float("nan"),), (float("-inf"),)])
def test_logprobs_that_are_not_one_finite_number_a_token_are_refused(
    make_trajectory: Make, logprobs: tuple[float, ...]
) -> None:
    with pytest.raises(TrainingError, match=r"'t' has \d sampler log-probs for 1 written tokens"):
        policy_rows(make_trajectory(logprobs=logprobs), (1.0,))


def test_a_turn_without_weight_is_refused(make_trajectory: Make) -> None:
    trajectory = make_trajectory((1, 5, 6, 7), ((0, 1, 2), (1, 3, 4)))
    with pytest.raises(TrainingError, match="written tokens in turn 1, but weights for 1 turns"):
        policy_rows(trajectory, (1.0,))
    with pytest.raises(TrainingError, match="written tokens in turn 0, but weights for 0 turns"):
        policy_rows(trajectory, ())


def test_weights_that_are_not_finite_are_refused(make_trajectory: Make) -> None:
    with pytest.raises(TrainingError, match="a missing reward is None"):
        policy_rows(make_trajectory(), (float("nan"),))


def test_rows_without_written_tokens_are_left_out(make_trajectory: Make) -> None:
    whole = make_trajectory()
    trajectory = replace(whole, rows=(*whole.rows, TokenRow((1, 2), (), ())))
    assert len(supervised_rows([trajectory])) == 1
    assert len(policy_rows(trajectory, (1.0,))) == 1


def test_splitting_a_rollout_into_rows_keeps_each_written_token_and_its_weight(make_trajectory: Make) -> None:
    whole = make_trajectory((1, 5, 6, 2, 9, 7, 2), ((0, 2, 4), (1, 5, 7)), logprobs=(-0.1, -0.2, -0.3, -0.4))
    split = replace(
        whole,
        rows=(
            TokenRow((1, 5, 6, 2), (WrittenSpan(0, 2, 4),), (-0.1, -0.2)),
            TokenRow((1, 9, 7, 2), (WrittenSpan(1, 2, 4),), (-0.3, -0.4), "history_changed"),
        ),
    )

    def weighted(trajectory: Trajectory) -> list[tuple[int, float]]:
        return [
            (int(row.token_ids[position]), float(weight))
            for row in policy_rows(trajectory, (0.5, -2.0))
            for position, weight in zip(row.positions, row.weights, strict=True)
        ]

    assert weighted(split) == weighted(whole)
    assert written_count(split) == written_count(whole) == 4


def _row(name: int, length: int, positions: list[int]) -> TrainingRow:
    return TrainingRow(
        str(name),
        np.arange(100 * name, 100 * name + length),
        np.array(positions),
        np.array(positions, dtype=np.float32),
        None,
    )


def test_micro_batch_points_at_the_position_before_each_written_token() -> None:
    (batch,) = micro_batches([_row(1, 5, [2, 4]), _row(2, 4, [1])], 100)
    # shortest first; tokens from the last written one on are not computed
    assert batch.input_ids.tolist() == [[200, 0, 0, 0], [100, 101, 102, 103]]
    assert batch.predictors.tolist() == [0, 5, 7]
    assert batch.targets.tolist() == [201, 102, 104]
    assert batch.weights.tolist() == [1.0, 2.0, 4.0]
    assert np.isnan(batch.old_logprobs).all()
    assert batch.logical_tokens == 9


@QUICK
@given(st.lists(st.integers(2, 30), min_size=1, max_size=30), st.integers(1, 90))
def test_micro_batches_hold_every_row_once_within_the_budget(lengths: list[int], budget: int) -> None:
    rows = [_row(index, length, [length - 1]) for index, length in enumerate(lengths, start=1)]
    batches = micro_batches(rows, budget)
    targets = sorted(int(target) for batch in batches for target in batch.targets)
    assert targets == sorted(100 * index + length - 1 for index, length in enumerate(lengths, start=1))
    assert all(batch.input_ids.size <= budget or len(batch.input_ids) == 1 for batch in batches)
    assert sum(batch.logical_tokens for batch in batches) == sum(lengths)
