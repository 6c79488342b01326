"""What each agent version has achieved in each task family: the evidence that routing policies decide from."""

from collections.abc import Mapping
from dataclasses import dataclass

from upturn.arbiter.posterior import Posterior
from upturn.errors import RecordError
from upturn.records import fields_json, from_fields, record


@record
class Count:
    """Outcomes of one version in one family."""

    successes: float = 0.0
    """Discounted: what is left of the rewards earned."""
    failures: float = 0.0
    """Discounted: what is left of the rewards missed."""
    outcomes: int = 0
    """Judged outcomes ever, undiscounted."""
    reward: float = 0.0
    """Sum of their rewards, undiscounted."""
    missing: int = 0
    """Outcomes whose judgement is missing: counted here and learned from nowhere."""


@dataclass(slots=True)
class _Cell:
    """A count that is being kept: the fields of Count."""

    successes: float = 0.0
    failures: float = 0.0
    outcomes: int = 0
    reward: float = 0.0
    missing: int = 0


@record
class TallyState:
    """A tally at one moment: family → version → count."""

    families: Mapping[str, Mapping[str, Count]]


class Tally:
    """Discounted success counts per agent version and task family.

    Every judged outcome first decays the counts of *all* versions in its family by ``discount``, so old evidence
    fades towards the prior at the pace at which the family is used: after a change, ``1 / (1 - discount)`` outcomes
    of the family later about 37 % of the old evidence is left (discounted Thompson sampling; the decay of
    Garivier and Moulines 2011). ``discount=1`` forgets nothing.

    The prior is Beta(1, 1) plus at most ``borrow`` outcomes' worth of the version's record in its *other* families,
    so a version that is good elsewhere gets a head start where it is new. ``borrow=0`` keeps families apart.
    """

    def __init__(self, *, discount: float = 0.995, borrow: float = 2.0) -> None:
        if not 0 < discount <= 1:
            raise ValueError(f"discount must be above 0 and at most 1 (1 = never forget), got {discount!r}")
        if not borrow >= 0:
            raise ValueError(f"borrow must be 0 (families apart) or more outcomes, got {borrow!r}")
        self.discount = discount
        self.borrow = borrow
        self._families: dict[str, dict[str, _Cell]] = {}

    def add(self, family: str, version: str, reward: float | None) -> None:
        """Count one outcome: a reward in [0, 1], or None for a missing judgement (no learning, no decay)."""
        if reward is not None and not 0 <= reward <= 1:
            raise ValueError(f"a reward must lie in [0, 1] or be None (missing), got {reward!r} for {version!r}")
        cells = self._families.setdefault(family, {})
        own = cells.setdefault(version, _Cell())
        if reward is None:
            own.missing += 1
            return
        for cell in cells.values():
            cell.successes *= self.discount
            cell.failures *= self.discount
        own.successes += reward
        own.failures += 1 - reward
        own.outcomes += 1
        own.reward += reward

    def count(self, family: str, version: str) -> Count:
        """The version's count in the family; all zero where it has none."""
        cell = self._families.get(family, {}).get(version)
        return Count() if cell is None else _frozen(cell)

    def posterior(self, family: str, version: str) -> Posterior:
        """What the counts say about the version's success rate in the family."""
        own = self.count(family, version)
        elsewhere_successes = elsewhere_failures = 0.0
        if self.borrow:
            for other, counts in self._families.items():
                if other != family and version in counts:
                    elsewhere_successes += counts[version].successes
                    elsewhere_failures += counts[version].failures
        total = elsewhere_successes + elsewhere_failures
        share = min(1.0, self.borrow / total) if total > 0 else 0.0
        return Posterior(
            alpha=1 + own.successes + share * elsewhere_successes,
            beta=1 + own.failures + share * elsewhere_failures,
        )

    def families(self) -> tuple[str, ...]:
        """Families with any outcome, in alphabetical order."""
        return tuple(sorted(self._families))

    def versions(self) -> tuple[str, ...]:
        """Versions with any outcome, in alphabetical order."""
        return tuple(sorted({version for counts in self._families.values() for version in counts}))

    def state(self) -> str:
        """The counts as one JSON object, independent of the order in which families and versions appeared."""
        families = {
            family: {version: _frozen(cell) for version, cell in sorted(cells.items())}
            for family, cells in sorted(self._families.items())
        }
        return fields_json(TallyState(families))

    def restore(self, state: str) -> None:
        """Replace the counts by those that ``state`` wrote; raises RecordError for anything else."""
        families: dict[str, dict[str, _Cell]] = {}
        for family, counts in from_fields(TallyState, state).families.items():
            families[family] = {version: _thawed(count) for version, count in counts.items()}
        self._families = families


def _frozen(cell: _Cell) -> Count:
    return Count(cell.successes, cell.failures, cell.outcomes, cell.reward, cell.missing)


def _thawed(count: Count) -> _Cell:
    if min(count.successes, count.failures, count.outcomes, count.reward, count.missing) < 0:
        raise RecordError(f"counts cannot be negative, got {count!r}")
    return _Cell(count.successes, count.failures, count.outcomes, count.reward, count.missing)
