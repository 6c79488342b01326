"""The steps of a rollout, which have values and advantages, by turn or by token. No torch here.

Steps consist of written tokens only, in the order of their turns over all rows of the rollout: values and TD errors
of observations cannot affect a result, and splitting a rollout into rows changes nothing."""

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
    starts: IntArray
    """``(S,)``: index into the N tokens of each step's first one; the value before it is the step's."""
    steps: IntArray
    """``(N,)``: the step of each token."""
    rewards: Floats
    """``(S,)``"""

    def valued_rows(self, values: Floats | None = None, returns: Floats | None = None) -> list[TrainingRow]:
        """Returns the rows for a critic: of the written tokens only the first of each step.

        ``values``, ``returns``: ``(S,)``, the values of the steps and their targets; None = unknown. Rows without a
        step's first token are omitted.
        """
        is_start = self._by_row(self._is_start())
        old_values, targets = self._scatter(values), self._scatter(returns)
        return [
            replace(
                row,
                positions=row.positions[start],
                old_logprobs=old[start],
                weights=target[start],
                turns=None,
                temperature=1.0,
            )
            for row, start, old, target in zip(self.rows, is_start, old_values, targets, strict=True)
            if start.any()
        ]

    def values_of(self, row_values: Sequence[FloatArray]) -> Floats:
        """Returns ``(S,)``: the values at the tokens of ``valued_rows``, in time."""
        values = np.full(len(self.steps), np.nan)
        values[self._is_start()] = np.concatenate(row_values)
        return values[self.starts]

    def weighted_rows(self, weights: Floats) -> list[TrainingRow]:
        """Returns the rows, each written token with its weight ``(N,)``."""
        parts = self._by_row(weights.astype(np.float32))
        return [replace(row, weights=part) for row, part in zip(self.rows, parts, strict=True)]

    def _is_start(self) -> NDArray[np.bool_]:
        is_start = np.zeros(len(self.steps), dtype=np.bool_)
        is_start[self.starts] = True
        return is_start

    def _scatter(self, numbers: Floats | None) -> list[FloatArray]:
        """By row, at the first tokens of steps; 0 elsewhere, and everywhere for None."""
        scattered = np.zeros(len(self.steps), dtype=np.float32)
        if numbers is not None:
            scattered[self.starts] = numbers
        return self._by_row(scattered)

    def _by_row(self, numbers: NDArray[Kind]) -> list[NDArray[Kind]]:
        return np.split(numbers, np.cumsum([len(row.positions) for row in self.rows])[:-1])


def group_steps(
    group: ScoredGroup, kind: StepKind, rows_of: Callable[[Trajectory], Sequence[TrainingRow]]
) -> list[RolloutSteps]:
    """Returns the steps of the scorable members with written tokens; ``rows_of`` must return rows with turns."""
    steps = []
    for member in group.members:
        rows = rows_of(member.trajectory)
        if rows and member.turn_rewards is not None and member.is_scorable:
            steps.append(rollout_steps(rows, member.turn_rewards, kind))
    return steps


def rollout_steps(rows: Sequence[TrainingRow], turn_rewards: Sequence[float], kind: StepKind) -> RolloutSteps:
    """Returns the steps of a rollout, from rows with turns.

    A turn's reward belongs to the last step that starts in it, or, if nothing was written in the turn, to the step
    before. Rewards before the first step are dropped, since no step affects them.
    """
    turns = np.concatenate([row.turns for row in rows if row.turns is not None])
    assert len(turns) == sum(len(row.positions) for row in rows)
    if kind == "token":
        starts = np.argsort(turns, kind="stable")
        steps = np.empty_like(starts)
        steps[starts] = np.arange(len(starts))
    else:
        _, starts, steps = np.unique(turns, return_index=True, return_inverse=True)
    rewards = np.zeros(len(starts))
    last = np.searchsorted(turns[starts], np.arange(len(turn_rewards)), side="right") - 1
    for step, reward in zip(last.tolist(), turn_rewards, strict=True):
        if step >= 0:
            rewards[step] += reward
    return RolloutSteps(tuple(rows), starts, steps.reshape(-1), rewards)
