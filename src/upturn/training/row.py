"""Training rows: what a loss needs of a trajectory's recorded tokens, and how rows are batched.

Rows carry token ids exactly as recorded. Only written tokens appear in ``positions``, so a loss cannot reach any
other. A row holds one weight per written token: its turn's advantage, or 1 in supervised training; because the
weight belongs to the token, splitting a rollout into several rows changes nothing. No torch here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from upturn.errors import TrainingError
from upturn.records import TokenRow, Trajectory

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRow:
    """One sequence. L = its length in tokens, A = its number of written tokens, A ≥ 1."""

    trajectory_id: str
    token_ids: IntArray
    """``(L,)``"""
    positions: IntArray
    """``(A,)``, ascending, in [1, L): where the written tokens stand. Position p is predicted at p − 1."""
    weights: FloatArray
    """``(A,)``"""
    old_logprobs: FloatArray | None
    """``(A,)``, the sampler's; None = not sampled by a model of ours, no policy gradient can use the row."""

    @property
    def computed_length(self) -> int:
        """Tokens that have to be fed to predict the last written one; what follows cannot matter."""
        return int(self.positions[-1])


def supervised_rows(trajectories: Iterable[Trajectory]) -> tuple[TrainingRow, ...]:
    """The rows of sampled and rendered trajectories alike, each written token with weight 1.

    Rows without written tokens are left out. Raises TrainingError naming a trajectory whose rows are inconsistent.
    """
    return tuple(
        _training_row(each.id, row, weights=None, old_logprobs=None)
        for each in trajectories
        for row in each.rows
        if row.spans
    )


def policy_rows(trajectory: Trajectory, turn_weights: Sequence[float]) -> tuple[TrainingRow, ...]:
    """The rows of a sampled trajectory for a policy gradient; each written token has the weight of its turn.

    Rows without written tokens are left out. Raises TrainingError for rendered trajectories, for ones sampled at a
    temperature other than 1 (the recorded log-probs are not the sampler's then) and for inconsistent rows.
    """
    if trajectory.origin != "sampled":
        raise TrainingError(
            f"trajectory {trajectory.id!r} is {trajectory.origin!r}: a policy gradient needs tokens and log-probs "
            "sampled from the policy; train on it with SFT instead"
        )
    if trajectory.temperature != 1.0:
        raise TrainingError(
            f"trajectory {trajectory.id!r} was sampled at temperature {trajectory.temperature!r}: its recorded "
            "log-probs are at temperature 1, so the ratio would be wrong; sample training rollouts at 1.0"
        )
    weights = dict(enumerate(turn_weights))
    return tuple(
        _training_row(trajectory.id, row, weights=weights, old_logprobs=row.logprobs)
        for row in trajectory.rows
        if row.spans
    )


def written_count(trajectory: Trajectory) -> int:
    """Tokens of the trajectory that a loss counts."""
    return sum(span.stop - span.start for row in trajectory.rows for span in row.spans)


def _training_row(
    trajectory_id: str,
    row: TokenRow,
    *,
    weights: dict[int, float] | None,
    old_logprobs: tuple[float, ...] | None,
) -> TrainingRow:
    """``weights`` by turn; None = every token weighs 1."""
    _check_spans(trajectory_id, row)
    lengths = [span.stop - span.start for span in row.spans]
    positions = np.concatenate([np.arange(span.start, span.stop) for span in row.spans])
    if weights is None:
        weight = np.ones(len(positions))
    else:
        missing = [span.turn for span in row.spans if span.turn not in weights]
        if missing:
            raise TrainingError(
                f"trajectory {trajectory_id!r} has written tokens in turn {missing[0]}, but weights for "
                f"{len(weights)} turns only; give one per turn"
            )
        weight = np.repeat([weights[span.turn] for span in row.spans], lengths)
    if not np.isfinite(weight).all():
        raise TrainingError(
            f"trajectory {trajectory_id!r} has a weight that is not finite; a missing reward is None"
        )
    return TrainingRow(
        trajectory_id,
        np.asarray(row.token_ids, dtype=np.int64),
        positions.astype(np.int64),
        weight.astype(np.float32),
        None if old_logprobs is None else _logprobs(trajectory_id, old_logprobs, len(positions)),
    )


def _check_spans(trajectory_id: str, row: TokenRow) -> None:
    spans, length = row.spans, len(row.token_ids)
    is_ordered = all(before.stop <= after.start for before, after in pairwise(spans))
    if not is_ordered or any(not 1 <= span.start < span.stop <= length for span in spans):
        shown = [(span.start, span.stop) for span in spans]
        raise TrainingError(
            f"trajectory {trajectory_id!r} has written spans {shown!r} in a row of {length} tokens; spans are "
            "ascending, disjoint, not empty, start at 1 or later (the first token has nothing to be predicted "
            "from) and end within the row"
        )


def _logprobs(trajectory_id: str, logprobs: Sequence[float], written: int) -> FloatArray:
    values = np.asarray(logprobs, dtype=np.float32)
    if len(values) != written or not np.isfinite(values).all():
        raise TrainingError(
            f"trajectory {trajectory_id!r} has {len(values)} sampler log-probs for {written} written tokens, "
            f"{int((~np.isfinite(values)).sum())} of them not finite; record one finite value per written token"
        )
    return values


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """Rows that are computed at once: B rows, T = the longest row's computed length, N = all written tokens."""

    input_ids: IntArray
    """``(B, T)``, right-padded with 0. Under causal attention no written token sees the padding: no mask needed."""
    predictors: IntArray
    """``(N,)``: where, in the flattened ``B·T``, each written token is predicted. Row by row, ascending."""
    targets: IntArray
    """``(N,)``: the written tokens."""
    weights: FloatArray
    """``(N,)``"""
    old_logprobs: FloatArray
    """``(N,)``; NaN where the row has none."""
    logical_tokens: int
    """Tokens of the rows without padding, as recorded."""


def micro_batches(rows: Sequence[TrainingRow], max_tokens: int) -> tuple[MicroBatch, ...]:
    """The rows by length, in batches of at most ``max_tokens`` padded tokens (a longer row stands alone).

    A pure function of the rows and their order; every row is in exactly one batch.
    """
    ordered = sorted(rows, key=lambda row: row.computed_length)
    batches: list[list[TrainingRow]] = []
    for row in ordered:
        if batches and row.computed_length * (len(batches[-1]) + 1) <= max_tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return tuple(_micro_batch(batch) for batch in batches)


def _micro_batch(rows: Sequence[TrainingRow]) -> MicroBatch:
    longest = max(row.computed_length for row in rows)
    input_ids = np.zeros((len(rows), longest), dtype=np.int64)
    for index, row in enumerate(rows):
        input_ids[index, : row.computed_length] = row.token_ids[: row.computed_length]
    unknown = np.float32(np.nan)
    return MicroBatch(
        input_ids,
        np.concatenate([index * longest + row.positions - 1 for index, row in enumerate(rows)]),
        np.concatenate([row.token_ids[row.positions] for row in rows]),
        np.concatenate([row.weights for row in rows]),
        np.concatenate(
            [np.full(len(row.positions), unknown) if row.old_logprobs is None else row.old_logprobs for row in rows]
        ),
        sum(len(row.token_ids) for row in rows),
    )
