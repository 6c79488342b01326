"""How rows become micro-batches."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.training import TrainingRow
from upturn.training.batch import micro_batches, written_tokens

QUICK = settings(max_examples=100, deadline=None)


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
    assert batch.written.targets.tolist() == [201, 102, 104]
    assert batch.written.weights.tolist() == [1.0, 2.0, 4.0]
    assert np.isnan(batch.written.old_logprobs).all()
    assert batch.logical_tokens == 9


@QUICK
@given(st.lists(st.integers(2, 30), min_size=1, max_size=30), st.integers(1, 90))
def test_micro_batches_hold_every_row_once_within_the_budget(lengths: list[int], budget: int) -> None:
    rows = [_row(index, length, [length - 1]) for index, length in enumerate(lengths, start=1)]
    batches = micro_batches(rows, budget)
    targets = sorted(int(target) for batch in batches for target in batch.written.targets)
    assert targets == sorted(100 * index + length - 1 for index, length in enumerate(lengths, start=1))
    assert all(batch.input_ids.size <= budget or len(batch.input_ids) == 1 for batch in batches)
    assert sum(batch.logical_tokens for batch in batches) == sum(lengths)


def test_rows_of_a_rollout_stay_together_and_share_a_sequence() -> None:
    whole = [_row(1, 9, [3]), _row(2, 4, [1]), _row(1, 5, [2, 4])]
    batches = micro_batches(whole, 5)
    assert [batch.written.targets.tolist() for batch in batches] == [[201], [103, 102, 104]]
    assert written_tokens(whole).sequences.tolist() == [0, 1, 0, 0]


def test_what_a_row_does_not_say_weighs_one_and_is_unknown() -> None:
    written = written_tokens([_row(1, 5, [2, 4])])
    assert written.scales.tolist() == written.corrections.tolist() == [1.0, 1.0]
    assert np.isnan(written.old_logprobs).all()
    assert np.isnan(written.reference_logprobs).all()
