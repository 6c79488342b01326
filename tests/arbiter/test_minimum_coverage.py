"""The share of decisions for agents with too few outcomes."""

import pytest

from upturn.arbiter import Candidate, DiscountedThompson, MinimumCoverage, RoutingOutcome, check_routing_policy
from upturn.records import Alternative, Decision, Task

CANDIDATES = [Candidate(name, f"{name}@1") for name in ("ana", "ben", "cem")]
MAIL = Task("t", "do", "mail", "office")


def taught(policy: MinimumCoverage, version: str, rewards: list[float | None]) -> None:
    options = (Alternative(version, 1.0, None),)
    agent = version.partition("@")[0]
    for index, reward in enumerate(rewards):
        name = f"{version}-{index}"
        policy.learn(
            Decision(name, name, "mail", "default", "p", "0", options, agent, version, 1.0, "because"),
            RoutingOutcome(name, reward),
        )


def test_agents_below_the_number_share_what_is_reserved() -> None:
    inner = DiscountedThompson(floor=0.05)
    policy = MinimumCoverage(inner, outcomes=3, share=0.3)
    taught(policy, "ana@1", [1.0, 1.0, 1.0])
    taught(policy, "ben@1", [0.0, 0.0, None, None])  # missing verdicts are no outcomes
    base = inner.probabilities(MAIL, CANDIDATES)
    shares = policy.probabilities(MAIL, CANDIDATES)
    assert list(shares) == pytest.approx([0.7 * base[0], 0.7 * base[1] + 0.15, 0.7 * base[2] + 0.15])
    assert sum(shares) == pytest.approx(1.0)
    taught(policy, "ben@1", [0.0])
    taught(policy, "cem@1", [0.0, 0.0, 0.0])
    assert list(policy.probabilities(MAIL, CANDIDATES)) == list(inner.probabilities(MAIL, CANDIDATES))
    other = Task("u", "do", "calendar", "office")
    assert min(policy.probabilities(other, CANDIDATES)) >= 0.1  # another family begins anew


def test_the_state_holds_counts_and_the_policy() -> None:
    policy, copy = (MinimumCoverage(DiscountedThompson(), outcomes=3, share=0.3) for _ in range(2))
    taught(policy, "ana@1", [1.0, 0.0])
    copy.restore(policy.state())
    assert (copy.state(), copy.snapshot()) == (policy.state(), policy.snapshot())
    assert copy.count("mail", "ana@1") == 2
    before = policy.snapshot()
    taught(policy, "ana@1", [1.0])
    assert policy.snapshot() != before


def test_it_is_a_routing_policy() -> None:
    assert check_routing_policy(lambda: MinimumCoverage(DiscountedThompson(), outcomes=5, share=0.2)) == []
