"""Families whose success rate is far from that of the same agent's other families: often a broken verifier."""

from collections import defaultdict
from collections.abc import Mapping
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple

MIN_FAMILIES = 5
"""Other families that a rate is compared with."""
MIN_TRAJECTORIES = 20
"""Of each family."""
DEVIATIONS = 4.0
"""Standard deviations from the mean of the other families, sampling error included, that are too many. Under a
normal distribution one family in 16,000 is."""


class Anomaly(NamedTuple):
    """A family that is out of range."""

    agent: str
    family: str
    rate: float
    """Share of successes among the judged trajectories."""
    expected: float
    """Mean rate of the agent's other families."""
    deviations: float
    """How many standard deviations it is away."""

    @property
    def problem(self) -> str:
        """For people."""
        return (
            f"{self.agent} succeeds in {self.rate:.0%} of {self.family}, in {self.expected:.0%} of its other "
            f"families ({self.deviations:.1f} standard deviations): check the verifier"
        )


def anomalies(counts: Mapping[tuple[str, str], tuple[int, int]]) -> list[Anomaly]:
    """Returns the families out of range; ``counts``: (agent version, family) → successes and trajectories."""
    by_agent = defaultdict[str, dict[str, tuple[float, int]]](dict)
    for (agent, family), (successes, total) in counts.items():
        if total >= MIN_TRAJECTORIES:
            by_agent[agent][family] = (successes / total, total)
    outliers: list[Anomaly] = []
    for agent, families in sorted(by_agent.items()):
        for family, (rate, total) in sorted(families.items()):
            others = [value for name, (value, _) in families.items() if name != family]
            if len(others) < MIN_FAMILIES:
                continue
            mean = fmean(others)
            error = sqrt(max(mean * (1 - mean), 1 / (4 * total)) / total)
            deviations = abs(rate - mean) / sqrt(stdev(others) ** 2 + error**2)
            if deviations > DEVIATIONS:
                outliers.append(Anomaly(agent, family, rate, mean, deviations))
    return outliers
