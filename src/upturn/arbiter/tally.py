"""Success counts of each agent version in each task family: the evidence that routing policies decide from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from upturn.arbiter.posterior import Posterior
from upturn.errors import RecordError
from upturn.records import fields_json, from_fields, record


@record
class Count:
    """Outcomes of one version in one family."""

    successes: float = 0.0
    """Discounted sum of rewards."""
    failures: float = 0.0
    """Discounted sum of 1 − reward."""
    outcomes: int = 0
    """Judged outcomes ever, undiscounted."""
    reward: float = 0.0
    """Sum of their rewards, undiscounted."""
    missing: int = 0
    """Outcomes without a verdict: counted, not learned from."""


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
    so a version that succeeds in other families starts higher in a new one. ``borrow=0`` keeps families apart.
    """

    def __init__(self, *, discount: float = 0.995, borrow: float = 2.0) -> None:
        if not 0 < discount <= 1:
            raise ValueError(f"discount must be above 0 and at most 1 (1 = never forget), got {discount!r}")
        if not borrow >= 0:
            raise ValueError(f"borrow must be 0 (families apart) or more outcomes, got {borrow!r}")
        self.discount = discount
        self.borrow = borrow
        self._families: dict[str, dict[str, Count]] = {}

    def add(self, family: str, version: str, reward: float | None) -> None:
        """Count one outcome: a reward in [0, 1], or None for a missing verdict (no learning, no decay)."""
        if reward is not None and not 0 <= reward <= 1:
            raise ValueError(f"a reward must lie in [0, 1] or be None (missing), got {reward!r} for {version!r}")
        counts = self._families.setdefault(family, {})
        if reward is None:
            count = counts.get(version, Count())
            counts[version] = replace(count, missing=count.missing + 1)
            return
        counts.setdefault(version, Count())
        for name, old in counts.items():
            kept = old.successes * self.discount, old.failures * self.discount
            counts[name] = Count(*kept, old.outcomes, old.reward, old.missing)
        count = counts[version]
        counts[version] = Count(
            count.successes + reward,
            count.failures + (1 - reward),
            count.outcomes + 1,
            count.reward + reward,
            count.missing,
        )

    def count(self, family: str, version: str) -> Count:
        """The version's count in the family; all zero where it has none."""
        return self._families.get(family, {}).get(version, Count())

    def posterior(self, family: str, version: str) -> Posterior:
        """The belief about the version's success rate in the family."""
        count = self.count(family, version)
        elsewhere_successes = elsewhere_failures = 0.0
        if self.borrow:
            for other, counts in self._families.items():
                if other != family and version in counts:
                    elsewhere_successes += counts[version].successes
                    elsewhere_failures += counts[version].failures
        total = elsewhere_successes + elsewhere_failures
        share = min(1.0, self.borrow / total) if total > 0 else 0.0
        return Posterior(
            alpha=1 + count.successes + share * elsewhere_successes,
            beta=1 + count.failures + share * elsewhere_failures,
        )

    def families(self) -> tuple[str, ...]:
        """Families with any outcome, in alphabetical order."""
        return tuple(sorted(self._families))

    def versions(self) -> tuple[str, ...]:
        """Versions with any outcome, in alphabetical order."""
        return tuple(sorted({version for counts in self._families.values() for version in counts}))

    def state(self) -> str:
        """The counts as one JSON object, independent of the order in which families and versions appeared."""
        families = {family: dict(sorted(counts.items())) for family, counts in sorted(self._families.items())}
        return fields_json(TallyState(families))

    def restore(self, state: str) -> None:
        """Replace the counts by those that ``state`` wrote; raises RecordError for anything else."""
        families = from_fields(TallyState, state).families
        self._families = {
            family: {version: _checked(count) for version, count in counts.items()}
            for family, counts in families.items()
        }


def _checked(count: Count) -> Count:
    if min(count.successes, count.failures, count.outcomes, count.reward, count.missing) < 0:
        raise RecordError(f"counts cannot be negative, got {count!r}")
    return count


@dataclass(frozen=True, slots=True)
class Capability:
    """One version's results in one family."""

    version: str
    family: str
    outcomes: int
    """Judged outcomes ever."""
    successes: float
    """Sum of their rewards: successes where rewards are 0 or 1."""
    missing: int
    """Outcomes without a verdict; not among ``outcomes``."""
    mean: float
    """Posterior mean of the success rate; recent outcomes weigh more."""
    low: float
    """Lower end of the 95 % credible interval."""
    high: float


def capabilities(tally: Tally) -> tuple[Capability, ...]:
    """The profile of every version in every family it has an outcome in, by version, then family."""
    rows: list[Capability] = []
    for version in tally.versions():
        for family in tally.families():
            count = tally.count(family, version)
            if count.outcomes or count.missing:
                posterior = tally.posterior(family, version)
                low, high = posterior.interval()
                rows.append(
                    Capability(
                        version, family, count.outcomes, count.reward, count.missing, posterior.mean, low, high
                    )
                )
    return tuple(rows)
