"""Reserved traffic for an agent under canary: otherwise routing that avoids it never evaluates its new version."""

from collections.abc import Sequence
from hashlib import sha256

from upturn.arbiter import Candidate, Posterior, RoutingOutcome, RoutingPolicy, estimates_of, features_of
from upturn.records import Decision, Task

CANARY_SHARE = 0.25
"""Minimum share of every family's tasks for the agent under canary. At a stage of 10 % the candidate then serves 30
of 1,200 tasks; with an exploration floor of 5 % over five agents that would take 30,000 tasks."""


class ReservedTraffic:
    """A routing policy that follows ``policy`` but gives ``agent`` at least ``share`` of its eligible tasks.

    Learning goes to ``policy``.
    """

    def __init__(self, policy: RoutingPolicy, agent: str, share: float = CANARY_SHARE) -> None:
        """``share``: above 0 and below 1."""
        assert 0 < share < 1
        self.name = f"{policy.name} ({share:.0%} kept for {agent})"
        self._policy = policy
        self._agent = agent
        self._share = share

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:
        """The policy's, with the agent's raised to at least the share and the others' scaled down."""
        probabilities = self._policy.probabilities(task, candidates)
        for index, candidate in enumerate(candidates):
            if candidate.agent == self._agent and probabilities[index] < self._share:
                scale = (1 - self._share) / (1 - probabilities[index])
                scaled = [scale * probability for probability in probabilities]
                return [*scaled[:index], self._share, *scaled[index + 1 :]]
        return probabilities

    def features(self, task: Task) -> tuple[float, ...]:
        """The policy's features of a task."""
        return features_of(self._policy, task)

    def learn(self, decision: Decision, outcome: RoutingOutcome) -> None:
        """Updates the policy."""
        self._policy.learn(decision, outcome)

    def belief(self, family: str, version: str) -> Posterior | None:
        """The policy's belief."""
        return self._policy.belief(family, version)

    def estimates(self, family: str, versions: Sequence[str]) -> Sequence[float | None]:
        """The policy's estimates."""
        return estimates_of(self._policy, family, versions)

    def snapshot(self) -> str:
        """Digest of the policy's snapshot, the agent and the share."""
        return sha256(f"{self.name}\n{self._policy.snapshot()}".encode()).hexdigest()[:16]


def reserved_policy(policy: RoutingPolicy, agents: Sequence[str]) -> RoutingPolicy:
    """Returns the policy with reserved traffic for agents under canary: ``CANARY_SHARE`` each, together at most
    half."""
    agents = sorted(set(agents))
    for agent in agents:
        policy = ReservedTraffic(policy, agent, min(CANARY_SHARE, 0.5 / len(agents)))
    return policy
