"""The steps of a rollout: what a critic values and what gets an advantage, by turn or by token. No torch here.

Only written tokens take part, in the order of their turns over all rows of the rollout: observations are not there,
so neither their values nor their TD errors can reach a result, and splitting a rollout into rows changes nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from upturn.records import Trajectory
from upturn.training.advantage import ScoredGroup
from upturn.training.algorithms.ppo.gae import Floats
from upturn.training.algorithms.ppo.settings import StepKind
from upturn.training.row import FloatArray, IntArray, TrainingRow

Kind = TypeVar("Kind", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class RolloutSteps:
    """One rollout with at least one written token. N = its written tokens, row by row; S = its steps, in time."""

    rows: tuple[TrainingRow, ...]
    begins: IntArray
    """``(S,)``: which of the N each step begins with; the value before it is the step's."""
    steps: IntArray
    """``(N,)``: the step of each token."""
    rewards: Floats
    """``(S,)``"""

    def valued_rows(self, values: Floats | None = None, returns: Floats | None = None) -> list[TrainingRow]:
        """The rows as a critic sees them: of the written tokens only those that begin a step.

        ``values``, ``returns``: ``(S,)``, what the step was worth and what its value is fitted to; None = not
        known. Rows in which no step begins are left out.
        """
        chosen = self._by_row(self._is_begin())
        old, weights = self._spread(values), self._spread(returns)
        return [
            replace(row, positions=row.positions[here], old_logprobs=known[here], weights=target[here], turns=None)
            for row, here, known, target in zip(self.rows, chosen, old, weights, strict=True)
            if here.any()
        ]

    def values_of(self, read: Sequence[FloatArray]) -> Floats:
        """``(S,)``: what was read at the tokens of ``valued_rows``, in time."""
        found = np.full(len(self.steps), np.nan)
        found[self._is_begin()] = np.concatenate(read)
        return found[self.begins]

    def weighted_rows(self, weights: Floats) -> list[TrainingRow]:
        """The rows, each written token with its weight ``(N,)``."""
        parts = self._by_row(weights.astype(np.float32))
        return [replace(row, weights=each) for row, each in zip(self.rows, parts, strict=True)]

    def _is_begin(self) -> NDArray[np.bool_]:
        found = np.zeros(len(self.steps), dtype=np.bool_)
        found[self.begins] = True
        return found

    def _spread(self, numbers: Floats | None) -> list[FloatArray]:
        """By row, at the tokens that begin a step; 0 elsewhere, and everywhere for None."""
        found = np.zeros(len(self.steps), dtype=np.float32)
        if numbers is not None:
            found[self.begins] = numbers
        return self._by_row(found)

    def _by_row(self, numbers: NDArray[Kind]) -> list[NDArray[Kind]]:
        return np.split(numbers, np.cumsum([len(row.positions) for row in self.rows])[:-1])


def group_steps(
    group: ScoredGroup, kind: StepKind, rows_of: Callable[[Trajectory], Sequence[TrainingRow]]
) -> list[RolloutSteps]:
    """Of the members that could be scored and wrote something; ``rows_of`` gives rows that know their turns."""
    found = []
    for member in group.members:
        rows = rows_of(member.trajectory)
        if rows and member.turn_rewards is not None and member.is_scorable:
            found.append(rollout_steps(rows, member.turn_rewards, kind))
    return found


def rollout_steps(rows: Sequence[TrainingRow], turn_rewards: Sequence[float], kind: StepKind) -> RolloutSteps:
    """The steps of a rollout, from rows that know their turns.

    A turn's reward stands on the last step that began in it. What turns earned in which nothing was written belongs
    to the step before; what came before any step no step could change, and it is left out.
    """
    turns = np.concatenate([_turns(row) for row in rows])
    if kind == "token":
        begins = np.argsort(turns, kind="stable")
        steps = np.empty_like(begins)
        steps[begins] = np.arange(len(begins))
    else:
        _, begins, steps = np.unique(turns, return_index=True, return_inverse=True)
    rewards = np.zeros(len(begins))
    last = np.searchsorted(turns[begins], np.arange(len(turn_rewards)), side="right") - 1
    for step, reward in zip(last.tolist(), turn_rewards, strict=True):
        if step >= 0:
            rewards[step] += reward
    return RolloutSteps(tuple(rows), begins, steps.reshape(-1), rewards)


def _turns(row: TrainingRow) -> IntArray:
    assert row.turns is not None  # rows of trajectories know them
    return row.turns
