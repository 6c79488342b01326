"""Traffic for an agent under canary: routing that avoids an agent would never let its new version be judged."""

from collections.abc import Sequence
from hashlib import sha256

from upturn.arbiter import Candidate, Posterior, RoutingOutcome, RoutingPolicy
from upturn.records import Decision, Task

CANARY_SHARE = 0.25
"""Of every family's tasks, at least, for the agent whose canary runs. At a stage of 10 % the candidate then meets
30 tasks within 1,200; at an exploration floor of 5 % over five agents it would take 30,000."""


class Reserved:
    """A routing policy that gives ``agent`` at least ``share`` of the tasks it may do, and else follows ``policy``.

    It learns nothing itself: what is learned while it stands in place goes to ``policy``.
    """

    def __init__(self, policy: RoutingPolicy, agent: str, share: float = CANARY_SHARE) -> None:
        """``share`` lies above 0 and below 1."""
        assert 0 < share < 1
        self.name = f"{policy.name} ({share:.0%} kept for {agent})"
        self._policy = policy
        self._agent = agent
        self._share = share

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:
        """The policy's, with the agent's raised to the share where it lies below, and the others' scaled down."""
        found = self._policy.probabilities(task, candidates)
        for place, candidate in enumerate(candidates):
            if candidate.agent == self._agent and found[place] < self._share:
                scale = (1 - self._share) / (1 - found[place])
                return [self._share if each == place else scale * chance for each, chance in enumerate(found)]
        return found

    def learn(self, decision: Decision, outcome: RoutingOutcome) -> None:
        """As the policy."""
        self._policy.learn(decision, outcome)

    def belief(self, family: str, version: str) -> Posterior | None:
        """The policy's."""
        return self._policy.belief(family, version)

    def snapshot(self) -> str:
        """Of the policy, the agent and the share."""
        return sha256(f"{self.name}\n{self._policy.snapshot()}".encode()).hexdigest()[:16]
