"""Balances micro-batches across ranks. No torch here.

All processes compute their micro-batches in lockstep, because each layer's weights are gathered collectively. So a
round lasts as long as its largest micro-batch, and micro-batches of similar size share a round.
"""

import math
from collections.abc import Callable, Sequence

from upturn.training.optimisation.batch import MicroBatch, padded_batch
from upturn.training.row import TrainingRow

_BUDGET_GROWTH = 1.25
"""Growth of the token budget until there are at most as many micro-batches as ranks: rollouts are not split."""


def balance(sizes: Sequence[int], ranks: int) -> list[list[int | None]]:
    """The index of each rank's micro-batch, by round; None = none, in the last round only.

    ``sizes``: computed positions of the micro-batches. They are sorted by size and cut into rounds, which minimises
    the sum over rounds of the largest; within a round, the rank with the least work so far gets the largest. Every
    micro-batch is assigned once, all ranks have the same number of rounds, and ties go by index.
    """
    order = sorted(range(len(sizes)), key=lambda index: (-sizes[index], index))
    assignments: list[list[int | None]] = [[] for _ in range(ranks)]
    totals = [0] * ranks
    for start in range(0, len(order), ranks):
        chunk = order[start : start + ranks]
        ranking = sorted(range(ranks), key=lambda rank: (totals[rank], rank))
        for rank, index in zip(ranking, [*chunk, *[None] * (ranks - len(chunk))], strict=True):
            assignments[rank].append(index)
            totals[rank] += 0 if index is None else sizes[index]
    return assignments


def split_for_ranks(
    batches: Callable[[int], Sequence[MicroBatch]], max_tokens: int, ranks: int
) -> Sequence[MicroBatch]:
    """``batches(max_tokens)``, or smaller ones where those are fewer than the ranks: then at most one per rank.

    ``batches`` returns the rows as micro-batches of at most that many positions. Rows of one rollout cannot be
    divided, so a rank may have none.
    """
    largest = batches(max_tokens)
    if not 0 < len(largest) < ranks:
        return largest
    total = sum(batch.input_ids.size for batch in largest)
    budget = math.ceil(total / ranks)
    while budget < max_tokens:
        smaller = batches(budget)
        if len(smaller) <= ranks:
            return smaller
        budget = math.ceil(_BUDGET_GROWTH * budget)
    return largest


def smallest_batch(rows: Sequence[TrainingRow]) -> MicroBatch:
    """The cheapest micro-batch from any row: up to its first written token. For a pass without effect."""
    row = min(rows, key=lambda row: int(row.positions[0]))
    first = int(row.positions[0])
    return padded_batch(
        [TrainingRow(row.trajectory_id, row.token_ids[: first + 1], row.positions[:1], row.weights[:1], None)]
    )
