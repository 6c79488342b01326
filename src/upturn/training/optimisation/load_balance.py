"""Dealing micro-batches out to the processes of a run: who computes what, and when. No torch here.

All processes go through their micro-batches in step, since each layer's weights are gathered by all of them at
once. So a round lasts as long as its largest micro-batch: like is put with like.
"""

import math
from collections.abc import Callable, Sequence

from upturn.training.optimisation.batch import MicroBatch, padded_batch
from upturn.training.row import TrainingRow

_WIDER = 1.25
"""By which a share grows until there are no more micro-batches than ranks: rollouts are not cut to fit."""


def dealt(sizes: Sequence[int], ranks: int) -> list[list[int | None]]:
    """By rank, which micro-batch it computes in each round; None = none, in the last round only.

    ``sizes``: computed positions of the micro-batches. Sorted by size and cut into rounds, which makes the sum over
    rounds of the largest as small as it can be; within a round, who has computed least so far gets the largest.
    Every micro-batch is given once, all ranks have equally many rounds, and ties go by place: a pure function.
    """
    order = sorted(range(len(sizes)), key=lambda place: (-sizes[place], place))
    hands: list[list[int | None]] = [[] for _ in range(ranks)]
    totals = [0] * ranks
    for start in range(0, len(order), ranks):
        part = order[start : start + ranks]
        turns = sorted(range(ranks), key=lambda rank: (totals[rank], rank))
        for rank, place in zip(turns, [*part, *[None] * (ranks - len(part))], strict=True):
            hands[rank].append(place)
            totals[rank] += 0 if place is None else sizes[place]
    return hands


def enough_for_all(
    batches: Callable[[int], Sequence[MicroBatch]], max_tokens: int, ranks: int
) -> Sequence[MicroBatch]:
    """``batches(max_tokens)``, or smaller ones where those are fewer than the ranks: then at most one for each.

    ``batches`` gives the rows as micro-batches of at most so many positions. Rows that cannot be divided further,
    since they are one rollout's, may leave a rank without.
    """
    found = batches(max_tokens)
    if not 0 < len(found) < ranks:
        return found
    whole = sum(batch.input_ids.size for batch in found)
    budget = math.ceil(whole / ranks)
    while budget < max_tokens:
        smaller = batches(budget)
        if len(smaller) <= ranks:
            return smaller
        budget = math.ceil(_WIDER * budget)
    return found


def smallest(rows: Sequence[TrainingRow]) -> MicroBatch:
    """The least that can be computed of any row: up to its first written token. For a pass that must not count."""
    row = min(rows, key=lambda each: int(each.positions[0]))
    first = int(row.positions[0])
    return padded_batch(
        [TrainingRow(row.trajectory_id, row.token_ids[: first + 1], row.positions[:1], row.weights[:1], None)]
    )
