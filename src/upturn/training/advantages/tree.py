"""Compares trajectories at the turn where their common token history ends."""

from typing import NamedTuple, TypeAlias

from upturn.errors import TrainingError
from upturn.records import Trajectory
from upturn.training.advantage import GroupAdvantages, Need, ScoredGroup
from upturn.training.advantages.returns import (
    differ,
    first_returns,
    group_advantages,
    mean_of,
    returns_to_go,
    zero_credit,
)
from upturn.training.advantages.settings import Baseline
from upturn.training.advantages.trajectory import leave_one_out_mean

History: TypeAlias = int
"""Everything the model had read and written before a turn, and its context then; numbered per group."""


class TreeSiblings:
    """V(h) is the mean return of the trajectories with history h; A_t = V(h_{t+1}) − V(h_t).

    After its last turn a trajectory has its own return, so its advantages add up to that return minus V(h_0). Two
    trajectories share a history while they have read and written exactly the same recorded tokens. Once a
    trajectory is alone, its turns get 0. ``leave_one_out`` computes V(h_t) without the trajectory itself, so that
    its baseline is independent of its return; the advantages then no longer add up, and a turn that no other
    trajectory reached still gets 0. Rewards are not discounted.
    """

    needs: frozenset[Need] = frozenset({"token_rows"})

    def __init__(self, *, baseline: Baseline = "group_mean") -> None:
        self.baseline: Baseline = baseline

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """One number per turn of each member."""
        returns = first_returns(returns_to_go(group, 1.0))
        histories = shared_histories(group)
        sharing: dict[History, list[float]] = {}
        for path, value in zip(histories, returns, strict=True):
            if value is not None:
                for history in path:
                    sharing.setdefault(history, []).append(value)
        turn_credits = []
        for member, path, value in zip(group.members, histories, returns, strict=True):
            if value is None:
                turn_credits.append(zero_credit(member))
                continue
            after = [*(mean_of(sharing[history]) for history in path[1:]), value]
            turn_credits.append(
                tuple(
                    self._credit(sharing[history], own=value, after=reached)
                    for history, reached in zip(path, after, strict=True)
                )
                if path
                else ()
            )
        return group_advantages(turn_credits, returns)

    def _credit(self, sharing: list[float], *, own: float, after: float) -> float:
        if not differ(sharing):
            return 0.0
        if self.baseline == "leave_one_out":
            return after - leave_one_out_mean(sharing, own)
        return after - mean_of(sharing)


def shared_histories(group: ScoredGroup) -> list[tuple[History, ...]]:
    """For each member, the history before each of its turns; equal numbers are equal histories.

    Empty for unscorable members. A history is the chain of all earlier calls and the context of the turn's first
    call, so trajectories with several rows (forks, auxiliary calls) share one only if all of it is equal. Raises
    TrainingError for a turn without tokens.
    """
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}

    def chained(before: int, tokens: tuple[int, ...]) -> int:
        return numbers.setdefault((before, tokens), len(numbers) + 1)

    histories: list[tuple[History, ...]] = []
    for member in group.members:
        before, passed = 0, []
        for calls in _calls(member.trajectory) if member.is_scorable else []:
            passed.append(chained(before, calls[0].prompt))
            for call in calls:
                before = chained(chained(before, call.prompt), call.written)
        histories.append(tuple(passed))
    return histories


class _Call(NamedTuple):
    """One call of the model."""

    prompt: tuple[int, ...]
    written: tuple[int, ...]


def _calls(trajectory: Trajectory) -> list[list[_Call]]:
    """The calls of each turn; rows in order, within a row in the order of writing."""
    by_turn: list[list[_Call]] = [[] for _ in trajectory.turns]
    for row in trajectory.rows:
        for span in row.spans:
            if span.turn < len(by_turn):
                call = _Call(row.token_ids[: span.start], row.token_ids[span.start : span.stop])
                by_turn[span.turn].append(call)
    for index, calls in enumerate(by_turn):
        if not calls:
            raise TrainingError(
                f"turn {index} of trajectory {trajectory.id!r} has no recorded tokens, by which trajectories that "
                "share a history are grouped; use rollouts of a local model, or choose another estimator"
            )
    return by_turn
