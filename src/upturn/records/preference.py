"""Preferences: one trajectory over another, or a rating of one trajectory."""

from typing import Literal

from upturn.records.record import record
from upturn.records.trajectory import Trajectory

PreferenceSource = Literal["group", "turn", "deployment", "correction"]
"""``group``: rewards of two trajectories of one group. ``turn``: values of two actions after the same history.
``deployment``: evaluations of two agent versions. ``correction``: a person's better trajectory."""


@record
class PreferencePair:
    """Two trajectories of one task, one better than the other; ``pair_problem`` validates a pair."""

    id: str
    """Unique among the pairs of one training run."""
    chosen: Trajectory
    rejected: Trajectory
    source: PreferenceSource
    margin: float | None = None
    """Difference of the compared scores; None = only the order is known."""
    chosen_turns: tuple[int, ...] | None = None
    """Turns of ``chosen`` to train on; None = all."""
    rejected_turns: tuple[int, ...] | None = None
    """Turns of ``rejected`` to train on; None = all."""


@record
class RatedTrajectory:
    """A trajectory rated good or bad on its own, not against another."""

    trajectory: Trajectory
    is_desirable: bool


def pair_problem(pair: PreferencePair) -> str | None:
    """Returns why the pair cannot be trained on and what to do; None = it can be trained on."""
    chosen, rejected = pair.chosen, pair.rejected
    if chosen.task_id != rejected.task_id:
        return (
            f"pair {pair.id!r} compares trajectories of task {chosen.task_id!r} and of task {rejected.task_id!r}; "
            "only trajectories of one task can be compared"
        )
    sides = written_tokens(chosen, pair.chosen_turns), written_tokens(rejected, pair.rejected_turns)
    for side, tokens in zip((chosen, rejected), sides, strict=True):
        if not tokens:
            return (
                f"pair {pair.id!r} has nothing to train on: {side.id!r} holds no written tokens in its turns; "
                "render its text to token rows first, or remove the pair"
            )
    if chosen.id == rejected.id or sides[0] == sides[1]:
        return (
            f"pair {pair.id!r} has two equal sides: {chosen.id!r} and {rejected.id!r} hold the same written tokens "
            "after the same prompts; remove it"
        )
    if pair.margin is not None and not pair.margin > 0:
        return (
            f"pair {pair.id!r} has the margin {pair.margin!r}; it must be positive, or None where "
            "it is unknown. Remove pairs with equal scores"
        )
    return None


def written_tokens(
    trajectory: Trajectory, turns: tuple[int, ...] | None
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Returns (preceding tokens, written tokens) of each model call in these turns; None = all turns."""
    return tuple(
        (row.token_ids[: span.start], row.token_ids[span.start : span.stop])
        for row in trajectory.rows
        for span in row.spans
        if turns is None or span.turn in turns
    )
