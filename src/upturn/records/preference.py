"""What somebody or something preferred: one attempt over another, or an attempt for itself."""

from typing import Literal

from upturn.records.record import record
from upturn.records.trajectory import Trajectory

PreferenceSource = Literal["group", "turn", "deployment", "correction"]
"""``group``: what two attempts earned. ``turn``: what two actions after one history were worth. ``deployment``: how
attempts of two agent versions were judged. ``correction``: a person put something better in its place."""


@record
class PreferencePair:
    """Two attempts at one task, of which one is better; ``pair_problem`` says what may be wrong with it."""

    id: str
    """Unique among the pairs that are learned from together."""
    chosen: Trajectory
    rejected: Trajectory
    source: PreferenceSource
    margin: float | None = None
    """How much better, in the unit of what was compared; None = known is only which one is better."""
    chosen_turns: tuple[int, ...] | None = None
    """The turns that differ for the better, the only ones to be learned from; None = all."""
    rejected_turns: tuple[int, ...] | None = None
    """Those on the other side."""


@record
class RatedTrajectory:
    """An attempt that somebody thought well of, or not; compared with no other."""

    trajectory: Trajectory
    is_desirable: bool


def pair_problem(pair: PreferencePair) -> str | None:
    """Why nobody can learn from the pair, naming it and the cure; None = nothing is wrong with it."""
    chosen, rejected = pair.chosen, pair.rejected
    if chosen.task_id != rejected.task_id:
        return (
            f"pair {pair.id!r} compares an attempt at task {chosen.task_id!r} with one at {rejected.task_id!r}; "
            "only attempts at one task can be compared"
        )
    sides = written_in(chosen, pair.chosen_turns), written_in(rejected, pair.rejected_turns)
    for side, written in zip((chosen, rejected), sides, strict=True):
        if not written:
            return (
                f"pair {pair.id!r} has nothing to learn from on the side of {side.id!r}, which holds no written "
                "tokens in its turns; render its text to token rows first, or leave the pair out"
            )
    if chosen.id == rejected.id or sides[0] == sides[1]:
        return (
            f"pair {pair.id!r} has two sides that are the same: {chosen.id!r} and {rejected.id!r} wrote the same "
            "after the same, so nothing can be preferred; leave it out"
        )
    if pair.margin is not None and not pair.margin > 0:
        return (
            f"pair {pair.id!r} has the margin {pair.margin!r}; the chosen side is better by a positive number, or "
            "None where it is not known by how much. Leave out pairs that earned the same"
        )
    return None


def written_in(
    trajectory: Trajectory, turns: tuple[int, ...] | None
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Call by call, all tokens before and the tokens that were written, in these turns (None = all)."""
    return tuple(
        (row.token_ids[: span.start], row.token_ids[span.start : span.stop])
        for row in trajectory.rows
        for span in row.spans
        if turns is None or span.turn in turns
    )
