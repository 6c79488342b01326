"""Training rows: a trajectory's recorded tokens as the input of a loss.

Rows have token ids exactly as recorded. Only written tokens appear in ``positions``, so a loss cannot reach any
other. A row has one weight per written token: its turn's advantage, or 1 in supervised training; because the weight
belongs to the token, splitting a rollout into several rows changes nothing. No torch here."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from upturn.errors import TrainingError
from upturn.records import TokenRow, Trajectory, WrittenSpan

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRow:
    """One sequence. L = its length in tokens, A = its number of written tokens, A ≥ 1."""

    trajectory_id: str
    token_ids: IntArray
    """``(L,)``"""
    positions: IntArray
    """``(A,)``, ascending, in [1, L): indices of the written tokens. The token at p is predicted at p − 1."""
    weights: FloatArray
    """``(A,)``"""
    old_logprobs: FloatArray | None
    """``(A,)``, the sampler's; None = not sampled by a local model: no policy gradient can use the row."""
    scales: FloatArray | None = None
    """``(A,)``, not negative: factor of each token's loss in the sum; None = 1, as in a token mean."""
    corrections: FloatArray | None = None
    """``(A,)``, not negative: factors of the policy term where sampler and trainer differ; None = 1."""
    reference_logprobs: FloatArray | None = None
    """``(A,)``, of the reference of a KL term or a preference; None = neither can use the row."""
    turns: IntArray | None = None
    """``(A,)``: the turn of its trajectory that each token was written in; None = all in one."""
    pair: str | None = None
    """The comparison that the row is one side of: rows of a pair are computed together, since their loss needs both
    sides at once. None = no comparison."""

    @property
    def rollout(self) -> tuple[str | None, str]:
        """Identifies the trajectory, separately for each comparison that it is in."""
        return self.pair, self.trajectory_id

    @property
    def computed_length(self) -> int:
        """Number of tokens needed to predict the last written one."""
        return int(self.positions[-1])


def supervised_rows(trajectories: Iterable[Trajectory]) -> tuple[TrainingRow, ...]:
    """Returns the rows of sampled and rendered trajectories, each written token with weight 1.

    Rows without written tokens are omitted. Raises TrainingError naming a trajectory with inconsistent rows.
    """
    return tuple(row for trajectory in trajectories for row in turn_rows(trajectory, weight=1.0))


def policy_rows(trajectory: Trajectory, turn_weights: Sequence[float]) -> tuple[TrainingRow, ...]:
    """Returns the rows of a sampled trajectory for a policy gradient; each written token has the weight of its
    turn.

    Rows without written tokens are omitted. Raises TrainingError for rendered trajectories, for a sampling
    temperature other than 1 (the recorded log-probs are not the sampler's then) and for inconsistent rows."""
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
        replace(_training_row(trajectory.id, row, weights), old_logprobs=_logprobs(trajectory.id, row))
        for row in trajectory.rows
        if row.spans
    )


def turn_rows(
    trajectory: Trajectory, *, weight: float, turns: Collection[int] | None = None, is_reference: bool = False
) -> tuple[TrainingRow, ...]:
    """Returns the rows of the tokens written in these turns (None = all), each token with this weight.

    ``is_reference``: the sampler is the reference. Its log-probs are recorded at temperature 1, whatever the
    sampling temperature was. Rows without such tokens are omitted. Raises TrainingError for inconsistent rows, and
    for a rendered trajectory whose sampler is to be the reference."""
    if is_reference and trajectory.origin != "sampled":
        raise TrainingError(
            f"trajectory {trajectory.id!r} is {trajectory.origin!r}: it has no log-probs of a sampler that could "
            "be the reference; set reference='initial' to compute them with the weights before training"
        )
    rows = []
    for recorded in trajectory.rows:
        row = recorded if turns is None else _select_spans(recorded, lambda span: span.turn in turns)
        if row.spans:
            training_row = _training_row(trajectory.id, row, {span.turn: weight for span in row.spans})
            if is_reference:
                training_row = replace(training_row, reference_logprobs=_logprobs(trajectory.id, row))
            rows.append(training_row)
    return tuple(rows)


def written_by(trajectory: Trajectory, versions: Collection[str]) -> Trajectory:
    """Returns the trajectory with only those written tokens that weights of these versions wrote; all others become
    context, without loss."""

    def is_theirs(span: WrittenSpan) -> bool:
        return (span.model_version or trajectory.model_version) in versions

    return replace(trajectory, rows=tuple(_select_spans(row, is_theirs) for row in trajectory.rows))


def _select_spans(row: TokenRow, is_selected: Callable[[WrittenSpan], bool]) -> TokenRow:
    """The row with some of its written spans only."""
    spans, logprobs, start = [], list[float](), 0
    for span in row.spans:
        stop = start + span.stop - span.start
        if is_selected(span):
            spans.append(span)
            logprobs += row.logprobs[start:stop]
        start = stop
    return replace(row, spans=tuple(spans), logprobs=tuple(logprobs))


def written_count(trajectory: Trajectory) -> int:
    """Returns the number of written tokens."""
    return sum(map(_written_count, trajectory.rows))


def _written_count(row: TokenRow) -> int:
    return sum(span.stop - span.start for span in row.spans)


def _training_row(trajectory_id: str, row: TokenRow, weights: Mapping[int, float]) -> TrainingRow:
    """``weights``: by turn."""
    _check_spans(trajectory_id, row)
    lengths = [span.stop - span.start for span in row.spans]
    positions = np.concatenate([np.arange(span.start, span.stop) for span in row.spans])
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
        None,
        turns=np.repeat(np.array([span.turn for span in row.spans], dtype=np.int64), lengths),
    )


def _check_spans(trajectory_id: str, row: TokenRow) -> None:
    spans, length = row.spans, len(row.token_ids)
    is_ordered = all(before.stop <= after.start for before, after in pairwise(spans))
    if not is_ordered or any(not 1 <= span.start < span.stop <= length for span in spans):
        shown = [(span.start, span.stop) for span in spans]
        raise TrainingError(
            f"trajectory {trajectory_id!r} has written spans {shown!r} in a row of {length} tokens; spans are "
            "ascending, disjoint, not empty, start at 1 or later (the first token cannot be predicted) and end "
            "within the row"
        )


def _logprobs(trajectory_id: str, row: TokenRow) -> FloatArray:
    """The sampler's log-probs of the written tokens."""
    values, written = np.asarray(row.logprobs, dtype=np.float32), _written_count(row)
    if len(values) != written or not np.isfinite(values).all():
        raise TrainingError(
            f"trajectory {trajectory_id!r} has {len(values)} sampler log-probs for {written} written tokens, "
            f"{int((~np.isfinite(values)).sum())} of them not finite; record one finite value per written token"
        )
    return values
