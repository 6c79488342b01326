"""Branch points: states inside a finished trajectory from which further rollouts can continue.

A branch point holds the turns before it, their tokens as an exact prefix, and the environment's state: a snapshot
where the environment supports it. An environment that does not raises NotImplementedError in ``snapshot()``; each
continuation then replays the actions in a new environment. Either way the environment must be deterministic: the
same actions must lead to the same observations and hashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from upturn.environments import Environment, executed_action
from upturn.errors import WorldError, error_text
from upturn.records import Observation, Task, TokenRow, Trajectory, Turn


@dataclass(frozen=True, slots=True)
class BranchPoint:
    """A state inside a trajectory, before one of its turns."""

    source: str
    """Id of the trajectory."""
    source_seed: int
    """Its seed: continuations of different trajectories sample differently."""
    turns: tuple[Turn, ...]
    """The turns before it."""
    rows: tuple[TokenRow, ...]
    """Their token rows. In a continuation they are context: its spans cover only its new tokens, so earlier tokens
    are not trained on again."""
    history: tuple[int, ...]
    """Prompt and output of the latest call; empty before the first."""
    observation: Observation
    """The observation that the next turn answers."""
    state_hash: str
    snapshot: object | None
    """The environment's snapshot; None = not supported, the actions are replayed."""
    potential: float | None = None
    """As recorded; None = the environment has no potential."""
    pending: tuple[Turn, ...] = ()
    """The next turns, where their message was written before this state: a continuation repeats their actions, and
    rows and history contain the whole message."""

    def enter(self, environment: Environment) -> None:
        """Brings an environment, just reset to the task, into this state.

        Raises WorldError where replayed actions lead to a different state.
        """
        if self.snapshot is not None:
            environment.restore(self.snapshot)
            return
        later = [*self.turns[1:], Turn(self.observation, "", None, state_hash=self.state_hash)]
        for turn, following in zip(self.turns, later, strict=False):
            _replay(environment, turn, following, self.source)


def full_trajectory(continuation: Trajectory, branch_point: BranchPoint) -> Trajectory:
    """The continuation as one trajectory from the start of the task, including the tokens before the branch point.

    For statistics over whole trajectories, not for training: tokens before the branch point occur in separate rows
    and again, as context, in the rows that extend them.
    """
    return replace(continuation, rows=(*branch_point.rows, *continuation.rows))


def branch_points(trajectory: Trajectory, task: Task, environment: Environment) -> tuple[BranchPoint, ...]:
    """A branch point before each turn of the trajectory, by replaying its actions in a new ``environment``.

    Raises WorldError where the environment is not deterministic or its ``snapshot()`` fails.
    """
    observation, info = environment.reset(task)
    if trajectory.turns:
        _check(observation, info.state_hash, trajectory.turns[0], trajectory.id)
    points = []
    for index, turn in enumerate(trajectory.turns):
        pending = _rest_of_message(trajectory.turns[index:])
        written = index + len(pending)
        points.append(
            BranchPoint(
                trajectory.id,
                trajectory.seed,
                trajectory.turns[:index],
                tuple(row for row in (_row_before(row, written) for row in trajectory.rows) if row is not None),
                _history(trajectory, written),
                turn.observation,
                turn.state_hash,
                _snapshot(environment),
                turn.potential,
                pending,
            )
        )
        if index + 1 < len(trajectory.turns):
            _replay(environment, turn, trajectory.turns[index + 1], trajectory.id)
    return tuple(points)


def _rest_of_message(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The first of the turns and those after it whose message began earlier."""
    return tuple(takewhile(lambda turn: turn.call > 0, turns))


def _snapshot(environment: Environment) -> object | None:
    """None where the environment does not support it. Raises WorldError where it fails."""
    try:
        return environment.snapshot()
    except NotImplementedError:
        return None
    except Exception as exc:
        raise WorldError(
            f"snapshot() of the environment {type(environment).__qualname__!r} raised {error_text(exc)}; return a "
            "frozen copy of the state, or raise NotImplementedError to have the actions replayed instead"
        ) from exc


def _replay(environment: Environment, turn: Turn, following: Turn, source: str) -> None:
    step = environment.step(executed_action(turn.action, turn.refusal))
    _check(step.observation, step.info.state_hash, following, source)


def _check(observation: Observation, state_hash: str, recorded: Turn, source: str) -> None:
    """Raises WorldError unless a replayed state is the one before the recorded turn."""
    for what, actual, expected in (
        ("observation", observation, recorded.observation),
        ("state hash", state_hash, recorded.state_hash),
    ):
        if actual != expected:
            raise WorldError(
                f"the environment is not deterministic: replaying trajectory {source!r}, its {what} is {actual!r} "
                f"instead of {expected!r}; derive all randomness from the task's seed"
            )


def _row_before(row: TokenRow, turn: int) -> TokenRow | None:
    """The row up to the last token written before the turn; None = no such token."""
    spans = tuple(span for span in row.spans if span.turn < turn)
    if not spans:
        return None
    written = sum(span.stop - span.start for span in spans)
    return TokenRow(
        row.token_ids[: spans[-1].stop],
        spans,
        row.logprobs[:written],
        row.fork_cause,
        row.sampling_logprobs[:written],
    )


def _history(trajectory: Trajectory, turn: int) -> tuple[int, ...]:
    """Prompt and output of the latest call before the turn; the last row's, if the turn wrote to several."""
    ends = [
        (span.turn, index, span.stop)
        for index, row in enumerate(trajectory.rows)
        for span in row.spans
        if span.turn < turn
    ]
    if not ends:
        return ()
    _, index, stop = max(ends)
    return trajectory.rows[index].token_ids[:stop]
