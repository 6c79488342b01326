"""Distribution of micro-batches over processes."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.training import TrainingRow
from upturn.training.optimisation.batch import MicroBatch, micro_batches
from upturn.training.optimisation.load_balance import balance, smallest_batch, split_for_ranks

Batches = Callable[[int], Sequence[MicroBatch]]
Sizes = st.lists(st.integers(1, 50), max_size=12)


def _row(name: str, length: int, first: int = 1) -> TrainingRow:
    positions = np.arange(first, length)
    weights = np.ones(len(positions), dtype=np.float32)
    return TrainingRow(name, np.full(length, hash(name) % 7, dtype=np.int64), positions, weights, None)


def test_similar_sizes_share_a_round_and_the_least_loaded_rank_gets_the_largest() -> None:
    assert balance([5, 9, 7, 1, 8], 2) == [[1, 0, 3], [4, 2, None]]


def test_no_micro_batches_give_empty_assignments() -> None:
    assert balance([], 3) == [[], [], []]


@given(sizes=Sizes, ranks=st.integers(1, 5))
def test_every_micro_batch_is_assigned_once_in_equal_rounds(sizes: list[int], ranks: int) -> None:
    assignments = balance(sizes, ranks)
    assert sorted(index for assignment in assignments for index in assignment if index is not None) == list(
        range(len(sizes))
    )
    assert {len(assignment) for assignment in assignments} == {-(-len(sizes) // ranks)}
    assert not any(index is None for assignment in assignments for index in assignment[:-1])


@given(sizes=st.lists(st.integers(1, 50), min_size=1, max_size=6))
def test_the_sum_of_round_maxima_is_minimal(sizes: list[int]) -> None:
    def seconds(rounds: Sequence[Sequence[int]]) -> int:
        return sum(max(sizes[index] for index in indices) for indices in rounds)

    balanced_rounds = [
        [index for index in indices if index is not None] for indices in zip(*balance(sizes, 2), strict=True)
    ]
    others = (
        [order[start : start + 2] for start in range(0, len(order), 2)]
        for order in itertools.permutations(range(len(sizes)))
    )
    assert seconds(balanced_rounds) == min(map(seconds, others))


def _batches(rows: Sequence[TrainingRow]) -> tuple[list[int], Batches]:
    budgets: list[int] = []

    def batches(max_tokens: int) -> Sequence[MicroBatch]:
        budgets.append(max_tokens)
        return micro_batches(rows, max_tokens, "padded")

    return budgets, batches


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_single_micro_batch_is_split_among_ranks(ranks: int) -> None:
    rows = [_row(str(index), 11) for index in range(12)]
    _, batches = _batches(rows)
    split = split_for_ranks(batches, 10_000, ranks)
    assert len(split) == ranks
    assert sorted(row.trajectory_id for batch in split for row in batch.rows) == sorted(
        row.trajectory_id for row in rows
    )


def test_as_many_micro_batches_as_ranks_are_unchanged() -> None:
    budgets, batches = _batches([_row(str(index), 11) for index in range(4)])
    assert len(split_for_ranks(batches, 10, 3)) == 4
    assert budgets == [10]


def test_one_rollout_is_not_split() -> None:
    _, batches = _batches([_row("alone", 11)])
    assert len(split_for_ranks(batches, 10_000, 4)) == 1


def test_no_rows_give_no_micro_batches() -> None:
    assert split_for_ranks(lambda _: (), 10, 2) == ()


def test_the_smallest_batch_ends_with_a_first_written_token() -> None:
    batch = smallest_batch([_row("late", 9, first=5), _row("early", 9, first=2)])
    assert batch.input_ids.size == 2
    assert batch.targets.size == 1
    assert batch.rows[0].trajectory_id == "early"
