"""Micro-batches: the rows that are computed at once, and what a loss needs of each of their written tokens.

All rows of a rollout lie in the same micro-batch, so that an objective may look at whole sequences. No torch here.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from upturn.training.row import FloatArray, IntArray, TrainingRow


@dataclass(frozen=True, slots=True, eq=False)
class WrittenTokens:
    """The written tokens of a micro-batch, row by row, ascending; each ``(N,)``."""

    targets: IntArray
    """Their ids."""
    sequences: IntArray
    """Index of the rollout that each belongs to, from 0."""
    weights: FloatArray
    scales: FloatArray
    """1 where the row has none."""
    corrections: FloatArray
    """1 where the row has none."""
    old_logprobs: FloatArray
    """NaN where the row has none."""
    reference_logprobs: FloatArray
    """NaN where the row has none."""


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """Rows that are computed at once: B rows, T = the longest row's computed length, N = all written tokens."""

    input_ids: IntArray
    """``(B, T)``, right-padded with 0. Under causal attention no written token sees the padding: no mask needed."""
    predictors: IntArray
    """``(N,)``: where, in the flattened ``B·T``, each written token is predicted. Row by row, ascending."""
    written: WrittenTokens
    logical_tokens: int
    """Tokens of the rows without padding, as recorded."""


def micro_batches(rows: Sequence[TrainingRow], max_tokens: int) -> tuple[MicroBatch, ...]:
    """The rollouts by length, in batches of at most ``max_tokens`` padded tokens (a longer one stands alone).

    A pure function of the rows and their order; every row is in exactly one batch.
    """
    batches: list[list[TrainingRow]] = []
    longest = 0
    for rollout in sorted(rollouts(rows), key=_longest):
        longest = _longest(rollout)
        if batches and longest * (len(batches[-1]) + len(rollout)) <= max_tokens:
            batches[-1] += rollout
        else:
            batches.append(rollout)
    return tuple(_micro_batch(batch) for batch in batches)


def rollouts(rows: Iterable[TrainingRow]) -> list[list[TrainingRow]]:
    """The rows of each rollout together, in the order in which the rollouts first appear."""
    found: dict[str, list[TrainingRow]] = {}
    for row in rows:
        found.setdefault(row.trajectory_id, []).append(row)
    return list(found.values())


def written_tokens(rows: Sequence[TrainingRow]) -> WrittenTokens:
    """What a loss needs of the rows' written tokens."""
    places = {name: place for place, name in enumerate(dict.fromkeys(row.trajectory_id for row in rows))}
    return WrittenTokens(
        np.concatenate([row.token_ids[row.positions] for row in rows]),
        np.concatenate([np.full(len(row.positions), places[row.trajectory_id], dtype=np.int64) for row in rows]),
        np.concatenate([row.weights for row in rows]),
        _column(rows, lambda row: row.scales, 1.0),
        _column(rows, lambda row: row.corrections, 1.0),
        _column(rows, lambda row: row.old_logprobs, np.nan),
        _column(rows, lambda row: row.reference_logprobs, np.nan),
    )


def _column(
    rows: Sequence[TrainingRow], values: Callable[[TrainingRow], FloatArray | None], missing: float
) -> FloatArray:
    columns = []
    for row in rows:
        found = values(row)
        columns.append(np.full(len(row.positions), missing, dtype=np.float32) if found is None else found)
    return np.concatenate(columns)


def _longest(rollout: Sequence[TrainingRow]) -> int:
    return max(row.computed_length for row in rollout)


def _micro_batch(rows: Sequence[TrainingRow]) -> MicroBatch:
    longest = _longest(rows)
    input_ids = np.zeros((len(rows), longest), dtype=np.int64)
    for index, row in enumerate(rows):
        input_ids[index, : row.computed_length] = row.token_ids[: row.computed_length]
    return MicroBatch(
        input_ids,
        np.concatenate([index * longest + row.positions - 1 for index, row in enumerate(rows)]),
        written_tokens(rows),
        sum(len(row.token_ids) for row in rows),
    )
