"""Minimum coverage: a share of decisions for agents with too few outcomes in a family, whatever they achieved."""

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256

from upturn.arbiter.policy import Candidate, RoutingOutcome, StoredPolicy, estimates_of, features_of
from upturn.arbiter.posterior import Posterior
from upturn.records import Decision, Task, fields_json, from_fields, record


@record
class CoverageState:
    """The counts, and the state of the policy inside."""

    policy: str
    outcomes: Mapping[str, Mapping[str, int]]
    """Outcomes with a reward: family → version → number."""


class MinimumCoverage:
    """A routing policy that follows ``policy``, except for a share of decisions.

    The share is divided equally between the candidates with fewer than ``outcomes`` outcomes in the task's family.
    Without such candidates nothing changes: ``p = (1 - share) · policy + share / U`` for each of U of them, else
    ``(1 - share) · policy``. All probabilities stay above 0.
    """

    def __init__(self, policy: StoredPolicy, *, outcomes: int, share: float) -> None:
        if outcomes < 1:
            raise ValueError(f"outcomes must be at least 1, got {outcomes!r}")
        if not 0 < share < 1:
            raise ValueError(f"share must be above 0 and below 1, got {share!r}")
        self.name = policy.name
        self.inner = policy
        self.outcomes = outcomes
        self.share = share
        self._counts: dict[str, Counter[str]] = {}

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:
        """Returns the policy's probabilities with the share for candidates that lack outcomes."""
        probabilities = self.inner.probabilities(task, candidates)
        counts = self._counts.get(task.family, Counter())
        lacking = [counts[candidate.version] < self.outcomes for candidate in candidates]
        if not any(lacking):
            return probabilities
        extra = self.share / sum(lacking)
        return [
            (1 - self.share) * probability + (extra if lacks else 0.0)
            for probability, lacks in zip(probabilities, lacking, strict=True)
        ]

    def learn(self, decision: Decision, outcome: RoutingOutcome) -> None:
        """Counts the outcome and teaches the policy."""
        self.inner.learn(decision, outcome)
        if outcome.reward is not None:
            self._counts.setdefault(decision.family, Counter())[decision.chosen] += 1

    def count(self, family: str, version: str) -> int:
        """Returns the version's number of outcomes in the family."""
        return self._counts.get(family, Counter())[version]

    def features(self, task: Task) -> tuple[float, ...]:
        """Returns the features that the policy sees; empty = it uses none."""
        return features_of(self.inner, task)

    def belief(self, family: str, version: str) -> Posterior | None:
        """Returns the policy's belief."""
        return self.inner.belief(family, version)

    def estimates(self, family: str, versions: Sequence[str]) -> Sequence[float | None]:
        """Returns the policy's estimates."""
        return estimates_of(self.inner, family, versions)

    def state(self) -> str:
        """Returns the counts and the policy's state."""
        counts = {family: dict(sorted(counts.items())) for family, counts in sorted(self._counts.items())}
        return fields_json(CoverageState(self.inner.state(), counts))

    def restore(self, state: str) -> None:
        """Replaces counts and state; raises RecordError for invalid text."""
        restored = from_fields(CoverageState, state)
        self.inner.restore(restored.policy)
        self._counts = {family: Counter(counts) for family, counts in restored.outcomes.items()}

    def snapshot(self) -> str:
        """Returns a hash of the policy's snapshot, the settings and the counts that matter."""
        short = sorted(
            (family, version, min(count, self.outcomes))
            for family, counts in self._counts.items()
            for version, count in counts.items()
        )
        text = repr((self.inner.snapshot(), self.outcomes, self.share, short))
        return sha256(text.encode()).hexdigest()[:16]
