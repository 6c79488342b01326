"""States inside a finished attempt, from which further attempts can go on.

A beginning holds what the attempt had done and read by then: its turns, its tokens as an exact prefix, and the
environment's state. The state is a snapshot where the environment makes them; an environment that does not raises
NotImplementedError in ``snapshot()``, and then each attempt that goes on repeats the actions in a new environment.
Either way the environment has to repeat itself: the same actions must lead to the same observations and hashes.
"""

from dataclasses import dataclass, replace

from upturn.environments import MALFORMED, Environment
from upturn.errors import WorldError, described
from upturn.records import Observation, Task, TokenRow, Trajectory, Turn


@dataclass(frozen=True, slots=True)
class Beginning:
    """A state inside an attempt, before one of its turns."""

    source: str
    """Id of the attempt."""
    source_seed: int
    """Its seed: continuations of different attempts draw differently."""
    turns: tuple[Turn, ...]
    """Those made before."""
    rows: tuple[TokenRow, ...]
    """Their tokens with what was written then. To an attempt that goes on they are context: the spans of its rows
    are those that it writes itself, so no loss sees the earlier ones again."""
    history: tuple[int, ...]
    """Prompt and output of the latest call; empty before the first."""
    observation: Observation
    """What the next turn answers."""
    state_hash: str
    snapshot: object | None
    """Of the environment; None = it makes none, the actions are repeated."""
    potential: float | None = None
    """As recorded; None = the environment does not say."""

    def enter(self, environment: Environment) -> None:
        """Brings an environment, just reset to the task, into this state.

        Raises WorldError where repeated actions lead elsewhere.
        """
        if self.snapshot is not None:
            environment.restore(self.snapshot)
            return
        seen = [*self.turns[1:], Turn(self.observation, "", None, state_hash=self.state_hash)]
        for turn, following in zip(self.turns, seen, strict=False):
            _repeat(environment, turn, following, self.source)


def whole_attempt(continuation: Trajectory, beginning: Beginning) -> Trajectory:
    """The continuation as one attempt from the task's beginning: what was written before is written in it too.

    For what is counted over an attempt. Its rows are not for training: tokens of the beginning stand in rows of
    their own and again, as context, in the rows that extend them.
    """
    return replace(continuation, rows=(*beginning.rows, *continuation.rows))


def beginnings(trajectory: Trajectory, task: Task, environment: Environment) -> tuple[Beginning, ...]:
    """One before each turn of the attempt, by repeating its actions in ``environment``, a new one.

    Raises WorldError where the environment does not repeat itself or its ``snapshot()`` breaks.
    """
    observation, info = environment.reset(task)
    first = trajectory.turns[:1]
    if first:
        _check(Turn(observation, "", None, state_hash=info.state_hash), first[0], trajectory.id)
    found = []
    for place, turn in enumerate(trajectory.turns):
        before = trajectory.turns[:place]
        rows = tuple(row for row in (_before(row, place) for row in trajectory.rows) if row is not None)
        found.append(
            Beginning(
                trajectory.id,
                trajectory.seed,
                before,
                rows,
                _history(trajectory, place),
                turn.observation,
                turn.state_hash,
                _snapshot(environment),
                turn.potential,
            )
        )
        if place + 1 < len(trajectory.turns):
            _repeat(environment, turn, trajectory.turns[place + 1], trajectory.id)
    return tuple(found)


def _snapshot(environment: Environment) -> object | None:
    """None where the environment makes none. Raises WorldError where it breaks."""
    try:
        return environment.snapshot()
    except NotImplementedError:
        return None
    except Exception as exc:
        raise WorldError(
            f"snapshot() of the environment {type(environment).__qualname__!r} raised {described(exc)}; return a "
            "frozen copy of the state, or raise NotImplementedError to have the attempt's actions repeated instead"
        ) from exc


def _repeat(environment: Environment, turn: Turn, following: Turn, source: str) -> None:
    step = environment.step(MALFORMED if turn.action is None else turn.action)
    _check(Turn(step.observation, "", None, state_hash=step.info.state_hash), following, source)


def _check(found: Turn, recorded: Turn, source: str) -> None:
    for what, now, then in (
        ("observation", found.observation, recorded.observation),
        ("state hash", found.state_hash, recorded.state_hash),
    ):
        if now != then:
            raise WorldError(
                f"the environment does not repeat attempt {source!r}: its {what} is {now!r} now and was {then!r}; "
                "draw everything random from the task's seed, or attempts cannot be continued"
            )


def _before(row: TokenRow, turn: int) -> TokenRow | None:
    """The row up to the last token written before the turn; None = there is none."""
    spans = tuple(span for span in row.spans if span.turn < turn)
    if not spans:
        return None
    written = sum(span.stop - span.start for span in spans)
    return TokenRow(row.token_ids[: spans[-1].stop], spans, row.logprobs[:written], row.fork_cause)


def _history(trajectory: Trajectory, turn: int) -> tuple[int, ...]:
    """Of the latest call before the turn; of several rows written to in one turn, the last one's."""
    ends = [
        (span.turn, place, span.stop)
        for place, row in enumerate(trajectory.rows)
        for span in row.spans
        if span.turn < turn
    ]
    if not ends:
        return ()
    _, place, stop = max(ends)
    return trajectory.rows[place].token_ids[:stop]
