"""Attempts that share a token history, compared where they part."""

from typing import NamedTuple, TypeAlias

from upturn.errors import TrainingError
from upturn.records import Trajectory
from upturn.training.advantage import GroupAdvantages, Need, ScoredGroup
from upturn.training.advantages.returns import differ, first_returns, mean_of, returns_to_go, silent, told
from upturn.training.advantages.settings import Baseline

History: TypeAlias = int
"""All that the model had read and written when a turn began, and the context it read then; numbered per group."""


class TreeSiblings:
    """V(h) is the mean return of the attempts that share the history h; A_t = V(h_{t+1}) − V(h_t).

    After its last turn an attempt has its own return, so its advantages add up to that return minus V(h_0). Two
    attempts share a history as long as both have read and written exactly the same recorded tokens. Once an attempt
    is alone, its turns get 0: nothing tells them apart. ``leave_one_out`` takes V(h_t) without the attempt itself,
    so that its own luck is not part of what it is compared with; the sum no longer holds then, and a turn that no
    other attempt reached still gets 0. Rewards are not discounted.
    """

    needs: frozenset[Need] = frozenset({"token_rows"})

    def __init__(self, *, baseline: Baseline = "group_mean") -> None:
        self.baseline: Baseline = baseline

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """One number per turn of each member."""
        returns = first_returns(returns_to_go(group, 1.0))
        histories = shared_histories(group)
        sharing: dict[History, list[float]] = {}
        for passed, value in zip(histories, returns, strict=True):
            if value is not None:
                for history in passed:
                    sharing.setdefault(history, []).append(value)
        found = []
        for member, passed, value in zip(group.members, histories, returns, strict=True):
            if value is None:
                found.append(silent(member))
                continue
            after = [*(mean_of(sharing[history]) for history in passed[1:]), value]
            found.append(
                tuple(
                    self._credit(sharing[history], own=value, after=reached)
                    for history, reached in zip(passed, after, strict=True)
                )
                if passed
                else ()
            )
        return told(found, returns)

    def _credit(self, sharing: list[float], *, own: float, after: float) -> float:
        if not differ(sharing):
            return 0.0
        if self.baseline == "leave_one_out":
            return after - (mean_of(sharing) * len(sharing) - own) / (len(sharing) - 1)
        return after - mean_of(sharing)


def shared_histories(group: ScoredGroup) -> list[tuple[History, ...]]:
    """For each member the history before each of its turns; equal numbers are equal histories.

    Empty for unscorable members. A history is the chain of all calls before and the context of the turn's first
    call, so attempts with several rows, which forked or think aside, share one only if all of it is equal. Raises
    TrainingError for a turn without tokens.
    """
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}

    def chained(before: int, tokens: tuple[int, ...]) -> int:
        return numbers.setdefault((before, tokens), len(numbers) + 1)

    found: list[tuple[History, ...]] = []
    for member in group.members:
        before, passed = 0, []
        for calls in _calls(member.trajectory) if member.is_scorable else []:
            passed.append(chained(before, calls[0].prompt))
            for call in calls:
                before = chained(chained(before, call.prompt), call.written)
        found.append(tuple(passed))
    return found


class _Call(NamedTuple):
    """One call of the model."""

    prompt: tuple[int, ...]
    written: tuple[int, ...]


def _calls(trajectory: Trajectory) -> list[list[_Call]]:
    """By turn; rows in their order, within a row in the order of writing."""
    found: list[list[_Call]] = [[] for _ in trajectory.turns]
    for row in trajectory.rows:
        for span in row.spans:
            if span.turn < len(found):
                call = _Call(row.token_ids[: span.start], row.token_ids[span.start : span.stop])
                found[span.turn].append(call)
    for index, calls in enumerate(found):
        if not calls:
            raise TrainingError(
                f"turn {index} of trajectory {trajectory.id!r} has no recorded tokens, by which attempts that "
                "share a history are found; use rollouts of a local model, or choose another estimator"
            )
    return found
