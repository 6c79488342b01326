"""Rewards by family and version, with one way of forgetting: none, by discount, or by a window.

A discount multiplies the weights of all versions in a family by ``discount`` before each outcome in it. A window
keeps the latest ``window`` outcomes of each family, of all versions together (Garivier and Moulines 2011), so a
version that is rarely chosen loses its outcomes too, and is explored again.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from math import fsum

from upturn.records import fields_json, from_fields, record

BORROW = 2.0
"""Maximum weight of a version's outcomes in other families, in outcomes."""


@record
class Moments:
    """Weighted rewards; ``squares`` is the weighted sum of squared deviations from the mean."""

    weight: float = 0.0
    mean: float = 0.0
    squares: float = 0.0

    def plus(self, reward: float) -> "Moments":
        """Returns the moments with one more reward of weight 1 (Welford 1962)."""
        weight = self.weight + 1
        difference = reward - self.mean
        mean = self.mean + difference / weight
        return Moments(weight, mean, self.squares + difference * (reward - mean))


@record
class EvidenceState:
    """Family → version → moments, and the window of each family: pairs of version and reward."""

    cells: Mapping[str, Mapping[str, Moments]]
    recent: Mapping[str, tuple[tuple[str, float], ...]]


class Evidence:
    """The rewards that count."""

    def __init__(self, *, discount: float = 1.0, window: int | None = None) -> None:
        """``discount``: above 0 and at most 1 (1 = none). ``window``: outcomes of a family; None = all."""
        if not 0 < discount <= 1:
            raise ValueError(f"discount must be above 0 and at most 1 (1 = no discount), got {discount!r}")
        if window is not None and window < 1:
            raise ValueError(f"window must be at least 1 or None (all outcomes), got {window!r}")
        if window is not None and discount < 1:
            raise ValueError(f"discount={discount!r} and window={window!r} both forget; set one of them")
        self.discount = discount
        self.window = window
        self._cells: dict[str, dict[str, Moments]] = {}
        self._recent: dict[str, deque[tuple[str, float]]] = {}
        self._overall: Moments | None = None  # None = not computed since the last outcome

    def add(self, family: str, version: str, reward: float) -> None:
        """Adds one outcome."""
        self._overall = None
        if self.window is not None:
            recent = self._recent.setdefault(family, deque(maxlen=self.window))
            recent.append((version, reward))
            self._cells[family] = _moments(recent)
            return
        cells = self._cells.setdefault(family, {})
        if self.discount < 1:
            for name, cell in cells.items():
                cells[name] = Moments(cell.weight * self.discount, cell.mean, cell.squares * self.discount)
        cells[version] = cells.get(version, Moments()).plus(reward)

    def cell(self, family: str, version: str) -> Moments:
        """Returns the moments of a version in a family; weight 0 without outcomes."""
        return self._cells.get(family, {}).get(version, Moments())

    def borrowed(self, family: str, version: str) -> tuple[float, float]:
        """Returns the mean of the version in its other families, and its weight: at most ``BORROW`` outcomes."""
        cells = [cells[version] for name, cells in self._cells.items() if name != family and version in cells]
        weight = fsum(cell.weight for cell in cells)
        if not weight:
            return 0.0, 0.0
        return fsum(cell.weight * cell.mean for cell in cells) / weight, min(weight, BORROW)

    def overall(self) -> Moments:
        """Returns the mean of all rewards, and the squared deviations within families and versions."""
        if self._overall is None:
            cells = [cell for cells in self._cells.values() for cell in cells.values()]
            weight = fsum(cell.weight for cell in cells)
            mean = fsum(cell.weight * cell.mean for cell in cells) / weight if weight else 0.0
            self._overall = Moments(weight, mean, fsum(cell.squares for cell in cells))
        return self._overall

    def dump(self) -> str:
        """Returns the state as JSON text."""
        return fields_json(EvidenceState(self._cells, {name: tuple(kept) for name, kept in self._recent.items()}))

    def load(self, text: str) -> None:
        """Replaces the state; raises RecordError for invalid text."""
        state = from_fields(EvidenceState, text)
        self._cells = {family: dict(cells) for family, cells in state.cells.items()}
        self._recent = {family: deque(kept, maxlen=self.window) for family, kept in state.recent.items()}
        self._overall = None


def _moments(outcomes: Iterable[tuple[str, float]]) -> dict[str, Moments]:
    rewards: dict[str, list[float]] = {}
    for version, reward in outcomes:
        rewards.setdefault(version, []).append(reward)
    return {version: _exact(values) for version, values in rewards.items()}


def _exact(values: list[float]) -> Moments:
    mean = fsum(values) / len(values)
    return Moments(float(len(values)), mean, fsum((value - mean) ** 2 for value in values))
