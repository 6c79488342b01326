"""What all policies of this room share: the floor, counts for reports, the hash of what was learned, and the state.

The router samples from the probabilities that a policy returns, so a logged propensity is the true one, also where
the probabilities approximate those of an ideal algorithm.
"""

from abc import abstractmethod
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from upturn.arbiter.features import task_features
from upturn.arbiter.policy import Candidate, RoutingOutcome
from upturn.arbiter.posterior import Posterior
from upturn.arbiter.tally import Tally
from upturn.errors import RecordError
from upturn.records import Decision, Task, fields_json, from_fields, record

Array = NDArray[np.float64]

MAX_FLOOR = 0.5
"""Maximum exploration floor of the policies here."""
ARITHMETIC = 2
"""Number of the probabilities' arithmetic, which snapshots contain: 2 reads the probability of being largest from a
table, so that its last digits differ from those of 1."""
DEFAULT_FLOOR = 0.01
"""With two agents whose success rates differ by .12, a floor costs .06 of its share: .06 points at .01, and .3 at
.05 (docs/decisions.md)."""


@record
class PolicyState:
    """Everything that a policy learned, without its settings."""

    policy: str
    """Name of the policy."""
    history: str
    """Hash of the outcomes learned, in their order."""
    tally: str
    """State of the counts."""
    learned: str
    """State of the policy's estimates; its form depends on the policy."""


class Offered(NamedTuple):
    """What policies read from K candidates."""

    versions: tuple[str, ...]
    handicaps: Array
    """(K,)"""


class LearningPolicy:
    """Base of the policies: counts outcomes, keeps the hash of the learned history, and adds the floor."""

    def __init__(self, name: str, floor: float, **settings: object) -> None:
        """``settings``: everything else that the probabilities depend on, for the snapshot."""
        if not 0 < floor <= MAX_FLOOR:
            raise ValueError(f"the exploration floor must be above 0 and at most {MAX_FLOOR}, got {floor!r}")
        self.name = name
        self.floor = floor
        self.tally = Tally(discount=1.0)
        self._settings = repr(sorted({"floor": floor, **settings}.items()))
        self._history = ""
        self._latest_offer: tuple[Sequence[Candidate], Offered] | None = None  # without costs the router repeats it
        self._snapshot: str | None = None  # None = not computed since the last outcome

    @abstractmethod
    def _scores(self, task: Task, candidates: Sequence[Candidate]) -> Array:
        """Returns the probability of each candidate without exploration floor; the results sum to 1."""

    @abstractmethod
    def _update(self, decision: Decision, reward: float) -> None:
        """Updates the estimates by one outcome."""

    @abstractmethod
    def _dump(self) -> str:
        """Returns the estimates as text."""

    @abstractmethod
    def _load(self, learned: str) -> None:
        """Replaces the estimates by those of ``_dump``."""

    def _offered(self, candidates: Sequence[Candidate]) -> Offered:
        """Returns the candidates' versions and handicaps."""
        if self._latest_offer is None or self._latest_offer[0] is not candidates:
            versions = tuple([candidate.version for candidate in candidates])
            offered = Offered(versions, np.array([candidate.handicap for candidate in candidates]))
            if not isinstance(candidates, tuple):
                return offered  # it may be changed
            self._latest_offer = (candidates, offered)
        return self._latest_offer[1]

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:
        """Returns ``(1 − floor) · p + floor / K`` for the policy's own probabilities p of K candidates."""
        scores = self._scores(task, candidates)
        return ((1 - self.floor) * scores + self.floor / len(candidates)).tolist()  # type: ignore[no-any-return]

    def learn(self, decision: Decision, outcome: RoutingOutcome) -> None:
        """Learns the outcome of one decision; a missing reward is counted and teaches nothing."""
        if outcome.decision_id != decision.id:
            raise ValueError(f"the outcome is of decision {outcome.decision_id!r}, not of {decision.id!r}")
        self.tally.add(decision.family, decision.chosen, outcome.reward)
        learned = (decision.id, decision.family, decision.chosen, outcome.reward, decision.features)
        self._history = sha256(f"{self._history}{learned!r}".encode()).hexdigest()[:16]
        self._snapshot = None
        if outcome.reward is not None:
            self._update(decision, outcome.reward)

    def belief(self, family: str, version: str) -> Posterior | None:
        """Returns the posterior of the version's success rate in the family, by the counts."""
        return self.tally.posterior(family, version)

    def estimates(self, family: str, versions: Sequence[str]) -> Sequence[float]:
        """Returns the posterior means of the versions in the family; equal to those of ``belief``."""
        return self.tally.means(family, versions)

    def snapshot(self) -> str:
        """Returns a hash of name, arithmetic, settings and learned history."""
        if self._snapshot is None:
            text = f"{self.name} {ARITHMETIC}\n{self._settings}\n{self._history}"
            self._snapshot = sha256(text.encode()).hexdigest()[:16]
        return self._snapshot

    def state(self) -> str:
        """Returns what was learned as JSON text, without settings; equal histories give equal text."""
        return fields_json(PolicyState(self.name, self._history, self.tally.state(), self._dump()))

    def restore(self, state: str) -> None:
        """Replaces what was learned by ``state``; raises RecordError for invalid text or another policy's state."""
        restored = from_fields(PolicyState, state)
        if restored.policy != self.name:
            raise RecordError(f"the state is of policy {restored.policy!r}, not of {self.name!r}; replay the log")
        self._load(restored.learned)
        self.tally.restore(restored.tally)
        self._history, self._snapshot = restored.history, None


class FeaturePolicy(LearningPolicy):
    """Base of the policies on features of the task."""

    def __init__(self, name: str, floor: float, **settings: object) -> None:
        super().__init__(name, floor, **settings)
        self._latest: tuple[Task, tuple[float, ...]] | None = None  # the router asks twice for each task

    def features(self, task: Task) -> tuple[float, ...]:
        """Returns the features of the task that the probabilities depend on."""
        if self._latest is None or self._latest[0] is not task:
            self._latest = (task, task_features(task))
        return self._latest[1]


def shared_equally(values: Array) -> Array:
    """Returns probability 1 shared equally by the values within 1e-12 of the largest."""
    leaders = (values >= values.max() - 1e-12).astype(np.float64)
    return np.asarray(leaders / leaders.sum(), dtype=np.float64)
