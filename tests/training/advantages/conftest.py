"""Hand-made groups of trajectories."""

from collections.abc import Callable, Sequence

import pytest

from upturn.records import Observation, Task, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training import ScoredGroup, ScoredTrajectory, StateValue

MakeGroup = Callable[..., ScoredGroup]
MakeMember = Callable[..., ScoredTrajectory]

TASK = Task("task", "do it", "toy", "toy")


def _member(
    rewards: Sequence[float] | None,
    *,
    name: str = "t",
    turns: int | None = None,
    states: str = "",
    rows: Sequence[TokenRow] = (),
    values: Sequence[tuple[float, int | None] | None] | None = None,
    potentials: Sequence[float] | None = None,
) -> ScoredTrajectory:
    """``states``: one letter a turn, its state hash. ``turns``: None = as many as rewards."""
    count = turns if turns is not None else len(states) or (1 if rewards is None else len(rewards))
    hashes = states or [""] * count
    turn_records = tuple(Turn(Observation(""), "", None, state_hash=state) for state in hashes)
    trajectory = Trajectory(
        name, "task", "nano@1", turn_records, Observation(""), "finished", "sampled", tuple(rows), temperature=1.0
    )
    return ScoredTrajectory(
        trajectory,
        None if rewards is None else tuple(rewards),
        None if values is None else tuple(None if value is None else StateValue(*value) for value in values),
        None if potentials is None else tuple(potentials),
    )


@pytest.fixture
def make_member() -> MakeMember:
    """Makes a trajectory."""
    return _member


@pytest.fixture
def make_group() -> MakeGroup:
    """Makes a group from rewards by turn, or from members."""

    def make(members: Sequence[Sequence[float] | ScoredTrajectory | None]) -> ScoredGroup:
        return ScoredGroup(
            TASK, tuple(item if isinstance(item, ScoredTrajectory) else _member(item) for item in members)
        )

    return make


def _row(*parts: str, turns: Sequence[int] | None = None, fork_cause: str | None = None) -> TokenRow:
    """Tokens are letters; parts are read, written, read, written, … by turn."""
    tokens: list[int] = []
    spans = []
    for place, part in enumerate(parts):
        if place % 2:
            turn = place // 2 if turns is None else turns[place // 2]
            spans.append(WrittenSpan(turn, len(tokens), len(tokens) + len(part)))
        tokens += map(ord, part)
    written = sum(span.stop - span.start for span in spans)
    return TokenRow(tuple(tokens), tuple(spans), (-1.0,) * written, fork_cause)


@pytest.fixture
def make_row() -> Callable[..., TokenRow]:
    """Makes a row of letters."""
    return _row
