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
    """``(A,)``, the sampler's; None = not sampled by a local model: no policy gradient can use the row. They are of
    the distribution that was sampled from, which differs from the policy's where ``is_reshaped``."""
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
    temperature: float = 1.0
    """Of the policy that is trained: its logits are those of the model divided by this number, as in TRL and
    verl."""
    is_reshaped: bool = False
    """True = the tokens were drawn with options such as top-p, which the policy does not have: ``old_logprobs``
    must be recomputed, and their difference corrected for (``MismatchSettings``)."""

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

    The policy is the model at the trajectory's temperature. Rows without written tokens are omitted. Raises
    TrainingError for rendered trajectories, for those without the log-probs of the distribution that was sampled
    from, and for inconsistent rows."""
    if trajectory.origin != "sampled":
        raise TrainingError(
            f"trajectory {trajectory.id!r} is {trajectory.origin!r}: a policy gradient needs tokens and log-probs "
            "sampled from the policy; train on it with SFT instead"
        )
    if problem := sampling_problem(trajectory):
        raise TrainingError(f"trajectory {trajectory.id!r} {problem}")
    weights = dict(enumerate(turn_weights))
    return tuple(
        replace(
            _training_row(trajectory.id, row, weights),
            old_logprobs=_logprobs(trajectory.id, row, row.sampling_logprobs or row.logprobs),
            temperature=trajectory.temperature or 1.0,
            is_reshaped=bool(trajectory.sampling),
        )
        for row in trajectory.rows
        if row.spans
    )


def sampling_problem(trajectory: Trajectory) -> str | None:
    """Returns why a sampled trajectory has no log-probs of the distribution that it was sampled from; None = it
    has."""
    heat = trajectory.temperature
    if not heat:
        return f"was sampled at temperature {heat!r}: greedy tokens have no probability ratio; sample above 0"
    is_recorded = all(row.sampling_logprobs for row in trajectory.rows if row.spans)
    if (heat != 1.0 or trajectory.sampling) and not is_recorded:
        options = "".join(f", {name} = {value!r}" for name, value in trajectory.sampling.items())
        return (
            f"was sampled at temperature {heat!r}{options}, but only log-probs of the model at temperature 1 were "
            "recorded, so the ratio would be wrong; sample in process, or let the engine return processed log-probs"
        )
    return None


def model_rows(trajectory: Trajectory) -> tuple[TrainingRow, ...]:
    """Returns the rows with weight 0, and with recorded log-probs that the model alone explains: those at
    temperature 1 where there are any, else those at the trajectory's temperature.

    Raises TrainingError where only log-probs of another distribution were recorded."""
    rows = policy_rows(replace(trajectory, sampling={}), (0.0,) * len(trajectory.turns))
    recorded = [row for row in trajectory.rows if row.spans]
    if all(row.logprobs for row in recorded):
        return tuple(
            replace(row, old_logprobs=_logprobs(trajectory.id, source, source.logprobs), temperature=1.0)
            for row, source in zip(rows, recorded, strict=True)
        )
    if trajectory.sampling:
        raise TrainingError(
            f"trajectory {trajectory.id!r} was sampled with {dict(trajectory.sampling)!r}, and only log-probs of "
            "that distribution were recorded, which our weights cannot verify; sample without these options, or in "
            "process"
        )
    return rows


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
                logprobs = _logprobs(trajectory.id, row, row.logprobs)
                training_row = replace(training_row, reference_logprobs=logprobs)
            rows.append(training_row)
    return tuple(rows)


def turn_end_rows(trajectory: Trajectory, weights: Mapping[int, float]) -> tuple[TrainingRow, ...]:
    """Returns the rows of a model with a scalar output that reads the state after these turns, by turn; the turn's
    weight is that of its number.

    A turn's state is read at its last written token, so a row's position is the token after it; where the row ends
    there, the last token stands in for it (no such model depends on the target). Turns without written tokens are
    omitted. Raises TrainingError for inconsistent rows."""
    ends: dict[int, tuple[int, int]] = {}
    """The row and the end of each turn's last model call."""
    for index, row in enumerate(trajectory.rows):
        _check_spans(trajectory.id, row)
        ends |= {span.turn: (index, span.stop) for span in row.spans if span.turn in weights}
    rows = []
    for index, row in enumerate(trajectory.rows):
        turns = [turn for turn, (place, _) in ends.items() if place == index]
        if turns:
            positions = np.array([ends[turn][1] for turn in turns], dtype=np.int64)
            token_ids = np.array((*row.token_ids, row.token_ids[-1])[: positions[-1] + 1], dtype=np.int64)
            chosen = np.array([weights[turn] for turn in turns], dtype=np.float32)
            numbers = np.array(turns, dtype=np.int64)
            rows.append(TrainingRow(trajectory.id, token_ids, positions, chosen, None, turns=numbers))
    return tuple(rows)


def last_turn(trajectory: Trajectory) -> int | None:
    """Returns the number of the last turn with written tokens; None = there is none."""
    return max((span.turn for row in trajectory.rows for span in row.spans), default=None)


def written_by(trajectory: Trajectory, versions: Collection[str]) -> Trajectory:
    """Returns the trajectory with only those written tokens that weights of these versions wrote; all others become
    context, without loss."""

    def is_theirs(span: WrittenSpan) -> bool:
        return (span.model_version or trajectory.model_version) in versions

    return replace(trajectory, rows=tuple(_select_spans(row, is_theirs) for row in trajectory.rows))


def _select_spans(row: TokenRow, is_selected: Callable[[WrittenSpan], bool]) -> TokenRow:
    """The row with some of its written spans only."""
    spans, logprobs, sampling, start = [], list[float](), list[float](), 0
    for span in row.spans:
        stop = start + span.stop - span.start
        if is_selected(span):
            spans.append(span)
            logprobs += row.logprobs[start:stop]
            sampling += row.sampling_logprobs[start:stop]
        start = stop
    return replace(row, spans=tuple(spans), logprobs=tuple(logprobs), sampling_logprobs=tuple(sampling))


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


def _logprobs(trajectory_id: str, row: TokenRow, recorded: Sequence[float]) -> FloatArray:
    """The recorded log-probs of the written tokens."""
    values, written = np.asarray(recorded, dtype=np.float32), _written_count(row)
    if len(values) != written or not np.isfinite(values).all():
        raise TrainingError(
            f"trajectory {trajectory_id!r} has {len(values)} sampler log-probs for {written} written tokens, "
            f"{int((~np.isfinite(values)).sum())} of them not finite; record one finite value per written token"
        )
    return values
