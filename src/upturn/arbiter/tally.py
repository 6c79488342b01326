"""Success counts of each agent version in each task family, the evidence of routing policies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from upturn.arbiter.posterior import Posterior, Shape
from upturn.errors import RecordError
from upturn.records import fields_json, from_fields, record

MAX_FAMILIES = 64
"""Maximum number of families whose posterior means are kept; all are dropped when there are more."""
RECENT_FAMILIES = 8
"""Number of families whose posterior means are computed again when an outcome arrives, not at the next decision."""
DEFAULT_DISCOUNT = 0.995
"""Factor on the counts of a family with each outcome in it (docs/decisions.md)."""


@record
class Count:
    """Counts of the outcomes of one version in one family."""

    successes: float = 0.0
    """Discounted sum of rewards."""
    failures: float = 0.0
    """Discounted sum of 1 − reward."""
    outcomes: int = 0
    """Number of outcomes with a verdict, undiscounted."""
    reward: float = 0.0
    """Sum of rewards, undiscounted."""
    missing: int = 0
    """Number of outcomes without a verdict, which are not learned from."""


@record
class TallyState:
    """The state of a tally: family → version → count."""

    families: Mapping[str, Mapping[str, Count]]


class Tally:
    """Discounted success counts per agent version and task family.

    Every outcome with a verdict first multiplies the counts of *all* versions in its family by ``discount``, so
    that old evidence decays towards the prior with each use of the family: after ``1 / (1 - discount)`` outcomes
    about 37 % of it remains (discounted Thompson sampling; the decay of Garivier and Moulines 2011). ``discount=1``
    keeps all.

    The prior is Beta(1, 1) plus at most ``borrow`` outcomes from the version's results in its *other* families, so
    that a version that succeeds in other families starts higher in a new one. ``borrow=0`` keeps families separate.
    """

    def __init__(self, *, discount: float = DEFAULT_DISCOUNT, borrow: float = 2.0) -> None:
        if not 0 < discount <= 1:
            raise ValueError(f"discount must be above 0 and at most 1 (1 = no discount), got {discount!r}")
        if not borrow >= 0:
            raise ValueError(f"borrow must be 0 (separate families) or more outcomes, got {borrow!r}")
        self.discount = discount
        self.borrow = borrow
        self._families: dict[str, dict[str, Count]] = {}
        self._posteriors: dict[str, dict[str, Posterior]] = {}  # version → family, since its counts changed
        self._means: dict[str, dict[str, float]] = {}  # family → version; the latest used family is last

    def add(self, family: str, version: str, reward: float | None) -> None:
        """Counts one outcome: a reward in [0, 1], or None for a missing verdict, which is only counted."""
        if reward is not None and not 0 <= reward <= 1:
            raise ValueError(f"a reward must be in [0, 1] or None (missing), got {reward!r} for {version!r}")
        counts = self._families.setdefault(family, {})
        if reward is None:
            count = counts.get(version, Count())
            counts[version] = replace(count, missing=count.missing + 1)
            return
        counts.setdefault(version, Count())
        self._posteriors.pop(version, None)
        if self.discount < 1:
            self._posteriors.clear()
            self._means.clear()
            for name, count in counts.items():
                counts[name] = replace(
                    count, successes=count.successes * self.discount, failures=count.failures * self.discount
                )
        count = counts[version]
        counts[version] = replace(
            count,
            successes=count.successes + reward,
            failures=count.failures + (1 - reward),
            outcomes=count.outcomes + 1,
            reward=count.reward + reward,
        )
        for number, (name, means) in enumerate(reversed(self._means.items())):
            if means.pop(version, None) is not None and number < RECENT_FAMILIES:
                means[version] = self._mean(name, version)

    def count(self, family: str, version: str) -> Count:
        """Returns the version's count in the family; all 0 if it has no outcomes."""
        return self._families.get(family, {}).get(version, Count())

    def posterior(self, family: str, version: str) -> Posterior:
        """Returns the posterior of the version's success rate in the family."""
        posteriors = self._posteriors.get(version)
        if posteriors is None:
            posteriors = self._posteriors[version] = {}
        posterior = posteriors.get(family)
        if posterior is None:
            posterior = posteriors[family] = Posterior(*self._shape(family, version))
        return posterior

    def means(self, family: str, versions: Sequence[str]) -> list[float]:
        """Returns the posterior mean of each version's success rate in the family."""
        if len(self._means) > MAX_FAMILIES:
            self._means.clear()
        means = self._means[family] = self._means.pop(family, {})
        try:
            return list(map(means.__getitem__, versions))
        except KeyError:
            means.update({name: self._mean(family, name) for name in versions if name not in means})
            return [means[name] for name in versions]

    def _mean(self, family: str, version: str) -> float:
        alpha, beta = self._shape(family, version)
        return alpha / (alpha + beta)

    def _shape(self, family: str, version: str) -> Shape:
        """Returns the parameters of the posterior."""
        successes = failures = other_successes = other_failures = 0.0
        for other, counts in self._families.items():
            count = counts.get(version)
            if count is None:
                continue
            if other == family:
                successes, failures = count.successes, count.failures
            else:
                other_successes += count.successes
                other_failures += count.failures
        total = other_successes + other_failures
        share = min(1.0, self.borrow / total) if total > 0 else 0.0
        return 1 + successes + share * other_successes, 1 + failures + share * other_failures

    def families(self) -> tuple[str, ...]:
        """Returns the families with an outcome, in alphabetical order."""
        return tuple(sorted(self._families))

    def versions(self) -> tuple[str, ...]:
        """Returns the versions with an outcome, in alphabetical order."""
        return tuple(sorted({version for counts in self._families.values() for version in counts}))

    def state(self) -> str:
        """Returns the counts as one JSON object, independent of the order of families and versions."""
        families = {family: dict(sorted(counts.items())) for family, counts in sorted(self._families.items())}
        return fields_json(TallyState(families))

    def restore(self, state: str) -> None:
        """Replaces the counts by those of ``state``; raises RecordError for invalid text."""
        families = from_fields(TallyState, state).families
        self._posteriors.clear()
        self._means.clear()
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
    """The results of one version in one family."""

    version: str
    family: str
    outcomes: int
    """Number of outcomes with a verdict."""
    successes: float
    """Sum of rewards; the number of successes if rewards are 0 or 1."""
    missing: int
    """Number of outcomes without a verdict; not in ``outcomes``."""
    mean: float
    """Posterior mean of the success rate; recent outcomes weigh more."""
    low: float
    """Lower end of the 95 % credible interval."""
    high: float


def capabilities(tally: Tally) -> tuple[Capability, ...]:
    """Returns the capability of every version in every family with an outcome, by version, then family."""
    profile: list[Capability] = []
    for version in tally.versions():
        for family in tally.families():
            count = tally.count(family, version)
            if count.outcomes or count.missing:
                posterior = tally.posterior(family, version)
                numbers = (count.outcomes, count.reward, count.missing, posterior.mean)
                profile.append(Capability(version, family, *numbers, *posterior.interval()))
    return tuple(profile)
