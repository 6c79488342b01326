"""Packing rows into micro-batches."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.config import Packing
from upturn.training import TrainingRow
from upturn.training.optimisation.batch import micro_batches, written_tokens
from upturn.training.optimisation.tree import MIN_SHARED

QUICK = settings(max_examples=100, deadline=None)


def _row(name: int, length: int, positions: list[int]) -> TrainingRow:
    return TrainingRow(
        str(name),
        np.arange(100 * name, 100 * name + length),
        np.array(positions),
        np.array(positions, dtype=np.float32),
        None,
    )


def _tokens(name: str, tokens: list[int], positions: list[int]) -> TrainingRow:
    ones = np.ones(len(positions), dtype=np.float32)
    return TrainingRow(name, np.array(tokens), np.array(positions), ones, None)


def test_a_padded_batch_predicts_each_written_token_at_the_position_before() -> None:
    (batch,) = micro_batches([_row(1, 5, [2, 4]), _row(2, 4, [1])], 100, "padded")
    # shortest first; tokens from the last written one on are not computed
    assert batch.input_ids.tolist() == [[200, 0, 0, 0], [100, 101, 102, 103]]
    assert batch.tree is None
    assert batch.predictors.tolist() == [0, 5, 7]
    assert batch.targets.tolist() == [201, 102, 104]
    assert batch.written.targets.tolist() == [201, 102, 104]
    assert batch.written.weights.tolist() == [1.0, 2.0, 4.0]
    assert np.isnan(batch.written.old_logprobs).all()
    assert (batch.logical_tokens, batch.needed_tokens) == (9, 5)


def test_a_tree_batch_computes_shared_prefixes_and_distinct_tokens_once() -> None:
    shared = list(range(50, 50 + MIN_SHARED))
    rows = [
        _tokens("a", [*shared, 1, 2, 3, 4], [16, 18, 19]),
        _tokens("b", [*shared, 1, 2, 7, 8], [16, 18, 19]),
        _tokens("c", [*shared, 5], [16]),
    ]
    (batch,) = micro_batches(rows, 100, "tree")
    # the first tokens that a and b write follow the same tokens: one prediction, counted in both
    assert batch.input_ids.tolist() == [[*shared, 1, 2, 3, 1, 2, 7]]
    assert batch.predictors.tolist() == [15, 15, 17, 18, 20, 21]
    assert batch.targets.tolist() == [1, 5, 3, 4, 7, 8]
    assert batch.targets[batch.copies].tolist() == batch.written.targets.tolist() == [5, 1, 3, 4, 1, 7, 8]
    assert batch.copies.tolist() == [1, 0, 2, 3, 0, 4, 5]
    assert batch.needed_tokens == 19 + 19 + 16


BUDGETS = st.integers(1, 90)


@QUICK
@given(st.lists(st.integers(2, 30), min_size=1, max_size=30), BUDGETS, st.sampled_from(["tree", "padded"]))
def test_micro_batches_hold_every_row_once_within_the_budget(
    lengths: list[int], budget: int, packing: Packing
) -> None:
    rows = [_row(index, length, [length - 1]) for index, length in enumerate(lengths, start=1)]
    batches = micro_batches(rows, budget, packing)
    targets = sorted(int(target) for batch in batches for target in batch.written.targets)
    assert targets == sorted(100 * index + length - 1 for index, length in enumerate(lengths, start=1))
    assert all(batch.input_ids.size <= budget or len(batch.rows) == 1 for batch in batches)
    assert sum(batch.logical_tokens for batch in batches) == sum(lengths)


def test_rollouts_of_a_task_share_a_tree() -> None:
    """Sorted by length they would be mixed, and every micro-batch would compute every prompt."""
    rows = [
        _tokens(f"{task}/{number}", [*range(task, task + 40), 7, 7, number], [40, 42])
        for number in range(3)
        for task in (100, 300)
    ]
    batches = micro_batches(rows, 60, "tree")
    assert [[row.trajectory_id for row in batch.rows] for batch in batches] == [
        ["100/0", "100/1", "100/2"], ["300/0", "300/1", "300/2"],
    ]  # fmt: skip


def test_rows_of_a_rollout_stay_together_and_share_a_sequence() -> None:
    rows = [_row(1, 9, [3]), _row(2, 4, [1]), _row(1, 5, [2, 4])]
    batches = micro_batches(rows, 5, "padded")
    assert [batch.written.targets.tolist() for batch in batches] == [[201], [103, 102, 104]]
    assert written_tokens(rows).sequences.tolist() == [0, 1, 0, 0]


def test_missing_columns_of_a_row_become_one_or_nan() -> None:
    written = written_tokens([_row(1, 5, [2, 4])])
    assert written.scales.tolist() == written.corrections.tolist() == [1.0, 1.0]
    assert np.isnan(written.old_logprobs).all()
    assert np.isnan(written.reference_logprobs).all()


def test_turns_are_counted_over_all_rollouts_and_a_row_without_them_is_one_turn() -> None:
    """Rollout 1 wrote in its turns 0, 2 and, in a second row, 2 again; rollout 2 has no turns."""
    first = replace(_row(1, 6, [1, 2, 4]), turns=np.array([0, 0, 2]))
    second = replace(_row(1, 6, [3]), turns=np.array([2]))
    written = written_tokens([first, _row(2, 5, [1, 3]), second])
    assert written.turns.tolist() == [0, 0, 1, 2, 2, 1]
    assert written.sequences.tolist() == [0, 0, 0, 1, 1, 0]
