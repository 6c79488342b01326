"""Comparisons of two works in both orders.

The protocol of JudgeBench (Tan et al., ICLR 2025): a judge sees each pair twice, with its works exchanged. Each
verdict is +1 for the first work, −1 for the second, 0 for a tie or none; the sign of the sum decides. A judge that
always takes the place and not the work so decides nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

from upturn.records import record

Verdict: TypeAlias = Literal["first", "second", "tie"] | None
"""Of the works as they are shown. None = the judge gave none."""
PairJudge: TypeAlias = Callable[[str, str, str], Verdict]
"""``judge(task, first, second)``. Must not raise."""
_SIGNS = {"first": 1, "second": -1, "tie": 0, None: 0}
_EXCHANGED: dict[Verdict, Verdict] = {"first": "second", "second": "first", "tie": "tie", None: None}


@record
class Pair:
    """Two works on one task."""

    id: str
    task: str
    first: str
    second: str
    label: Literal["first", "second"] | None = None
    """The better one by people; None = not labelled."""
    authors: tuple[str, str] = ("", "")
    """Vendor of the model that wrote each work; empty = unknown, or a person."""


@record
class Compared:
    """A judge's verdicts on one pair, both of the pair's first and second work."""

    pair: Pair
    forward: Verdict
    """Where the first work was shown first."""
    backward: Verdict
    """Where the second work was shown first."""

    @property
    def decision(self) -> Literal["first", "second", "tie"]:
        """The sign of the sum of both verdicts."""
        total = _SIGNS[self.forward] + _SIGNS[self.backward]
        return "first" if total > 0 else "second" if total < 0 else "tie"

    @property
    def is_consistent(self) -> bool | None:
        """Whether both orders have one verdict; None = an order has none."""
        return None if None in (self.forward, self.backward) else self.forward == self.backward


def compare_pairs(judge: PairJudge, pairs: Iterable[Pair]) -> list[Compared]:
    """The judge's verdicts on each pair in both orders."""
    return [
        Compared(
            pair,
            judge(pair.task, pair.first, pair.second),
            _EXCHANGED[judge(pair.task, pair.second, pair.first)],
        )
        for pair in pairs
    ]


def label_accuracy(decisions: Sequence[Verdict], pairs: Sequence[Pair]) -> float | None:
    """The share of labelled pairs with the label as decision: a tie, or none, is wrong. None = none is labelled."""
    right = [
        decision == pair.label for decision, pair in zip(decisions, pairs, strict=True) if pair.label is not None
    ]
    return sum(right) / len(right) if right else None
