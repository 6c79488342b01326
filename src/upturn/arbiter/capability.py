"""Capability profiles: what each agent version has shown it can do, family by family, for people and reports."""

from dataclasses import dataclass

from upturn.arbiter.tally import Tally


@dataclass(frozen=True, slots=True)
class Capability:
    """One version's record in one family."""

    version: str
    family: str
    outcomes: int
    """Judged outcomes ever."""
    successes: float
    """Sum of their rewards: successes where rewards are 0 or 1."""
    missing: int
    """Outcomes whose judgement is missing; not among ``outcomes``."""
    mean: float
    """What the arbiter believes now: recent outcomes weigh more than old ones."""
    low: float
    """Lower end of the 95 % credible interval of that belief."""
    high: float


def capabilities(tally: Tally) -> tuple[Capability, ...]:
    """The profile of every version in every family it has an outcome in, by version, then family."""
    rows: list[Capability] = []
    for version in tally.versions():
        for family in tally.families():
            count = tally.count(family, version)
            if count.outcomes or count.missing:
                belief = tally.posterior(family, version)
                low, high = belief.interval()
                rows.append(
                    Capability(version, family, count.outcomes, count.reward, count.missing, belief.mean, low, high)
                )
    return tuple(rows)
