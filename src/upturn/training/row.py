"""Training rows: what a loss needs of a trajectory's recorded tokens.

Rows carry token ids exactly as recorded. Only written tokens appear in ``positions``, so a loss cannot reach any
other. A row holds one weight per written token: its turn's advantage, or 1 in supervised training; because the
weight belongs to the token, splitting a rollout into several rows changes nothing. No torch here.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
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
    scales: FloatArray | None = None
    """``(A,)``, not negative: how much each token's loss counts in the sum; None = 1 each, as in a token mean."""
    corrections: FloatArray | None = None
    """``(A,)``, not negative: what a policy term is multiplied by where sampler and trainer differ; None = 1."""
    reference_logprobs: FloatArray | None = None
    """``(A,)``, of the policy that a KL term or a preference holds on to; None = neither can use the row."""
    turns: IntArray | None = None
    """``(A,)``: the turn of its trajectory that each was written in; None = all in one."""
    pair: str | None = None
    """Which comparison the row is one side of: rows with one name are computed together, since their loss needs
    both sides at once. None = the row's trajectory stands by itself."""

    @property
    def rollout(self) -> tuple[str | None, str]:
        """What it belongs to: its trajectory, once for each comparison that the trajectory is in."""
        return self.pair, self.trajectory_id

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


def turn_rows(
    trajectory: Trajectory, *, weight: float, turns: Collection[int] | None = None, is_reference: bool = False
) -> tuple[TrainingRow, ...]:
    """The rows of the tokens written in these turns (None = all), each token with this weight.

    ``is_reference``: the sampler's log-probs are the reference's. They are recorded at temperature 1, whatever the
    temperature was that tokens were drawn at. Rows without such tokens are left out. Raises TrainingError for
    inconsistent rows, and for a rendered trajectory where its sampler is to be the reference.
    """
    if is_reference and trajectory.origin != "sampled":
        raise TrainingError(
            f"trajectory {trajectory.id!r} is {trajectory.origin!r}: it has no log-probs of a sampler that could "
            "be the reference; set reference='initial' to compute them with the weights before training"
        )
    found = []
    for row in trajectory.rows:
        chosen = row if turns is None else _of_turns(row, turns)
        if chosen.spans:
            weights = {span.turn: weight for span in chosen.spans}
            made = _training_row(trajectory.id, chosen, weights=weights, old_logprobs=None)
            if is_reference:
                recorded = _logprobs(trajectory.id, chosen.logprobs, len(made.positions))
                made = replace(made, reference_logprobs=recorded)
            found.append(made)
    return tuple(found)


def _of_turns(row: TokenRow, turns: Collection[int]) -> TokenRow:
    """The row as if nothing but these turns had been written in it."""
    spans, logprobs, start = [], list[float](), 0
    for span in row.spans:
        stop = start + span.stop - span.start
        if span.turn in turns:
            spans.append(span)
            logprobs += row.logprobs[start:stop]
        start = stop
    return replace(row, spans=tuple(spans), logprobs=tuple(logprobs))


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
        turns=np.repeat(np.array([span.turn for span in row.spans], dtype=np.int64), lengths),
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
