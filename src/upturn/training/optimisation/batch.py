"""Micro-batches: the rows of one forward pass, and the inputs of a loss for each of their written tokens.

Rows are packed as a token tree (every shared prefix once) or padded side by side. All rows of a rollout, and both
sides of a pair, are in the same micro-batch, so that an objective can use whole sequences and pairs. No torch here.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from upturn.config import Packing
from upturn.training.optimisation.tree import TokenTree, common_length, token_tree
from upturn.training.row import FloatArray, IntArray, TrainingRow


@dataclass(frozen=True, slots=True, eq=False)
class WrittenTokens:
    """The written tokens of a micro-batch, row by row, ascending; each ``(N,)``."""

    targets: IntArray
    """Their ids."""
    sequences: IntArray
    """Index of each token's rollout, from 0; a rollout in several pairs counts once for each."""
    weights: FloatArray
    scales: FloatArray
    """1 where the row has none."""
    corrections: FloatArray
    """1 where the row has none."""
    old_logprobs: FloatArray
    """NaN where the row has none."""
    reference_logprobs: FloatArray
    """NaN where the row has none."""
    turns: IntArray
    """Index of each token's turn, counted over all rollouts, from 0."""
    pairs: IntArray
    """Index of each token's pair, from 0; −1 = none."""


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """Rows of one forward pass; N = all their written tokens, U = the distinct predictions among them.

    Rollouts with a common prefix may have written the same token after it: it is predicted once, and counts once in
    each of them.
    """

    rows: tuple[TrainingRow, ...]
    input_ids: IntArray
    """``(B, T)``. Padded: B rows, right-padded with 0 (under causal attention no written token attends to the
    padding, so no mask is needed). As a tree: B = 1, T = its tokens."""
    tree: TokenTree | None
    """None = padded."""
    predictors: IntArray
    """``(U,)``, ascending: the position in the flattened ``B·T`` at which each distinct token is predicted."""
    targets: IntArray
    """``(U,)``: the distinct tokens."""
    temperatures: FloatArray | None
    """``(U,)``: of the policy that predicts them; None = 1."""
    copies: IntArray
    """``(N,)``: index of each written token among the U."""
    written: WrittenTokens
    logical_tokens: int
    """Tokens of the rows, as recorded."""
    needed_tokens: int
    """Tokens of the rows up to the last written one: the cost of computing each row separately."""


def micro_batches(rows: Sequence[TrainingRow], max_tokens: int, packing: Packing) -> tuple[MicroBatch, ...]:
    """The rows in batches of at most ``max_tokens`` computed positions (a longer rollout or pair gets its own).

    Tree packing groups rollouts with common prefixes; padding groups rollouts of similar length. A pure function of
    the rows and their order; every row is in exactly one batch.
    """
    if packing == "tree":
        return tuple(tree_batch(batch) for batch in _by_prefix(rows, max_tokens))
    return tuple(padded_batch(batch) for batch in _by_length(rows, max_tokens))


def _by_prefix(rows: Sequence[TrainingRow], max_tokens: int) -> list[list[TrainingRow]]:
    batches: list[list[TrainingRow]] = []
    size = 0
    for rollout in sorted(bundles(rows), key=lambda bundle: _computed_ids(bundle[0]).astype(">i8").tobytes()):
        added = _new_tokens(rollout, batches[-1][-1:]) if batches else 0
        if batches and size + added <= max_tokens:
            batches[-1] += rollout
            size += added
        else:
            batches.append(list(rollout))
            size = _new_tokens(rollout, [])
    return batches


def _new_tokens(rollout: Sequence[TrainingRow], before: Sequence[TrainingRow]) -> int:
    """Tokens of the rollout not in a prefix shared with the row before it or with its own earlier rows."""
    total = 0
    for index, row in enumerate(rollout):
        earlier = [*before, *rollout[:index]]
        tokens = _computed_ids(row)
        total += len(tokens) - max((common_length(tokens, _computed_ids(other)) for other in earlier), default=0)
    return total


def _by_length(rows: Sequence[TrainingRow], max_tokens: int) -> list[list[TrainingRow]]:
    batches: list[list[TrainingRow]] = []
    for rollout in sorted(bundles(rows), key=_longest):
        if batches and _longest(rollout) * (len(batches[-1]) + len(rollout)) <= max_tokens:
            batches[-1] += rollout
        else:
            batches.append(list(rollout))
    return batches


def bundles(rows: Iterable[TrainingRow]) -> list[list[TrainingRow]]:
    """The rows of each pair, and of each rollout without one, together; in the order of their first rows."""
    by_key: dict[tuple[str | None, str], list[TrainingRow]] = {}
    for row in rows:
        by_key.setdefault(row.rollout if row.pair is None else (row.pair, ""), []).append(row)
    return list(by_key.values())


def written_tokens(rows: Sequence[TrainingRow]) -> WrittenTokens:
    """The inputs of a loss for the rows' written tokens."""
    rollout_indices = {name: index for index, name in enumerate(dict.fromkeys(row.rollout for row in rows))}
    pair_names = dict.fromkeys(row.pair for row in rows if row.pair is not None)
    pair_indices = {name: index for index, name in enumerate(pair_names)}
    sequences = _indices(rows, [rollout_indices[row.rollout] for row in rows])
    return WrittenTokens(
        np.concatenate([row.token_ids[row.positions] for row in rows]),
        sequences,
        np.concatenate([row.weights for row in rows]),
        _column(rows, lambda row: row.scales, 1.0),
        _column(rows, lambda row: row.corrections, 1.0),
        _column(rows, lambda row: row.old_logprobs, np.nan),
        _column(rows, lambda row: row.reference_logprobs, np.nan),
        _turns(rows, sequences),
        _indices(rows, [-1 if row.pair is None else pair_indices[row.pair] for row in rows]),
    )


def _indices(rows: Sequence[TrainingRow], numbers: Sequence[int]) -> IntArray:
    """One number for each row, repeated for each of its written tokens."""
    return np.repeat(np.asarray(numbers, dtype=np.int64), [len(row.positions) for row in rows])


def _turns(rows: Sequence[TrainingRow], sequences: IntArray) -> IntArray:
    """Turn indices that differ between rollouts."""
    local = np.concatenate([np.zeros_like(row.positions) if row.turns is None else row.turns for row in rows])
    return np.unique(sequences * (local.max() + 1) + local, return_inverse=True)[1].reshape(-1)


def _column(
    rows: Sequence[TrainingRow], values: Callable[[TrainingRow], FloatArray | None], missing: float
) -> FloatArray:
    columns = []
    for row in rows:
        column = values(row)
        columns.append(np.full(len(row.positions), missing, dtype=np.float32) if column is None else column)
    return np.concatenate(columns)


def _longest(rollout: Sequence[TrainingRow]) -> int:
    return max(row.computed_length for row in rollout)


def _computed_ids(row: TrainingRow) -> IntArray:
    return row.token_ids[: row.computed_length]


def tree_batch(rows: Sequence[TrainingRow]) -> MicroBatch:
    """All rows, in order, as one tree."""
    tree, paths = token_tree([_computed_ids(row) for row in rows])
    predictors = np.concatenate([path[row.positions - 1] for row, path in zip(rows, paths, strict=True)])
    return _micro_batch(rows, tree.token_ids[None], tree, predictors)


def padded_batch(rows: Sequence[TrainingRow]) -> MicroBatch:
    """All rows, in order, right-padded."""
    longest = _longest(rows)
    input_ids = np.zeros((len(rows), longest), dtype=np.int64)
    for index, row in enumerate(rows):
        input_ids[index, : row.computed_length] = _computed_ids(row)
    predictors = np.concatenate([index * longest + row.positions - 1 for index, row in enumerate(rows)])
    return _micro_batch(rows, input_ids, None, predictors)


def _micro_batch(
    rows: Sequence[TrainingRow], input_ids: IntArray, tree: TokenTree | None, predictors: IntArray
) -> MicroBatch:
    """``predictors``: of all written tokens, ``(N,)``."""
    written = written_tokens(rows)
    lengths = [len(row.positions) for row in rows]
    heats, kinds = np.unique(np.array([row.temperature for row in rows], dtype=np.float32), return_inverse=True)
    queries = np.stack([predictors, written.targets, np.repeat(kinds.reshape(-1), lengths)], axis=1)
    distinct, copies = np.unique(queries, axis=0, return_inverse=True)
    return MicroBatch(
        tuple(rows),
        input_ids,
        tree,
        distinct[:, 0],
        distinct[:, 1],
        None if heats.tolist() == [1.0] else heats[distinct[:, 2]],
        copies.reshape(-1),
        written,
        sum(len(row.token_ids) for row in rows),
        sum(row.computed_length for row in rows),
    )
