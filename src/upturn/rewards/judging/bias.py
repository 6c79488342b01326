"""What a judge prefers apart from quality: a place, the longer work, works of its own vendor, or no answer at all.

Pure functions of comparisons in both orders, with 95 % bootstrap intervals over pairs. Position, length and
self-preference are differences from what an unbiased judge would have. Length and authors are compared with
people's labels, because the longer work, or that of one vendor, may be better.
"""

from collections.abc import Callable, Sequence

from upturn.interval import Interval, bootstrap_mean
from upturn.records import Result, record
from upturn.rewards.judging.comparison import Compared, Pair, Verdict

_POINTS = {"first": 1.0, "second": 0.0, "tie": 0.5}


@record
class BiasReport:
    """The biases of one judge. None = no pair tells."""

    position: Interval | None
    """Share of verdicts for the work shown first, less 0.5: each work is shown first once. Ties count half."""
    inconsistent: Interval | None
    """Share of pairs with verdicts in both orders that differ between the orders."""
    length: Interval | None
    """How much more often the longer work wins than the labels say."""
    self_preference: Interval | None
    """How much more often a work of the judge's vendor wins against another vendor's than the labels say."""
    null: Interval
    """Share of verdicts that the judge did not give."""

    def found(self) -> tuple[str, ...]:
        """The names of the differences whose interval excludes 0."""
        differences = {"position": self.position, "length": self.length, "self_preference": self.self_preference}
        return tuple(
            name for name, value in differences.items() if value is not None and not value.low <= 0 <= value.high
        )

    def results(self) -> Sequence[Result]:
        """The figures of a command."""
        figures = {
            "position": self.position,
            "inconsistent": self.inconsistent,
            "length": self.length,
            "self_preference": self.self_preference,
            "null": self.null,
        }
        return [interval.result(name) for name, interval in figures.items() if interval is not None]


def measure_biases(compared: Sequence[Compared], *, vendor: str = "", seed: int = 0) -> BiasReport:
    """The biases in a judge's verdicts.

    ``vendor``: the judge's; empty = unknown, and self-preference is not measured. Raises ValueError without a
    comparison.
    """
    if not compared:
        raise ValueError("measure_biases needs at least one comparison")
    nulls = [((item.forward is None) + (item.backward is None)) / 2 for item in compared]
    places = [value for item in compared if (value := _place(item)) is not None]
    consistent = [item.is_consistent for item in compared]
    changes = [float(not value) for value in consistent if value is not None]
    lengths = _excess(compared, _longer)
    own = _excess(compared, lambda pair: _own(pair, vendor)) if vendor else []
    return BiasReport(
        bootstrap_mean(places, seed, bounds=(-0.5, 0.5)) if places else None,
        bootstrap_mean(changes, seed, bounds=(0, 1)) if changes else None,
        bootstrap_mean(lengths, seed, bounds=(-1, 1)) if lengths else None,
        bootstrap_mean(own, seed, bounds=(-1, 1)) if own else None,
        bootstrap_mean(nulls, seed, bounds=(0, 1)),
    )


def _place(item: Compared) -> float | None:
    """The share of both verdicts for the work that is shown first, less 0.5; None where an order has none."""
    if item.forward is None or item.backward is None:
        return None
    return (_POINTS[item.forward] + 1 - _POINTS[item.backward]) / 2 - 0.5


def _excess(compared: Sequence[Compared], favoured: Callable[[Pair], Verdict]) -> list[float]:
    """By labelled pair with a favoured work: its share of the verdicts, less 1 where the label favours it."""
    values = []
    for item in compared:
        side, label = favoured(item.pair), item.pair.label
        verdicts = [verdict for verdict in (item.forward, item.backward) if verdict is not None]
        if side in (None, "tie") or label is None or not verdicts:
            continue
        share = sum(_POINTS[verdict] for verdict in verdicts) / len(verdicts)
        values.append((share if side == "first" else 1 - share) - float(label == side))
    return values


def _longer(pair: Pair) -> Verdict:
    if len(pair.first) == len(pair.second):
        return "tie"
    return "first" if len(pair.first) > len(pair.second) else "second"


def _own(pair: Pair, vendor: str) -> Verdict:
    is_own = [author == vendor for author in pair.authors]
    if is_own[0] == is_own[1] or "" in pair.authors:
        return "tie"
    return "first" if is_own[0] else "second"
