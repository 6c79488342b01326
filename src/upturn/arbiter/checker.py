"""The contract checker for routing policies.

Checked: there is one probability per candidate, all are above 0, their sum is 1, and they do not depend on the
order of the candidates; computing them does not change the snapshot; learning does. Not checked: whether the policy
is good.
"""

from collections.abc import Callable, Sequence
from itertools import permutations
from math import fsum, isclose

from upturn.arbiter.policy import Candidate, RoutingOutcome, RoutingPolicy
from upturn.records import Alternative, Decision, Task

_AGENTS = ("a", "b", "c")
_REWARDS = (1.0, 0.0, 0.5, None)


def check_routing_policy(make: Callable[[], RoutingPolicy]) -> list[str]:
    """Returns the violations of the contract, one sentence each; ``make`` returns a new policy."""
    policy = make()
    task = Task(id="check", instruction="", family="check", environment="check")
    candidates = [Candidate(agent, f"{agent}@1") for agent in _AGENTS]
    problems = _check_choice(policy, task, candidates)
    for index, reward in enumerate(_REWARDS * 5):
        decision = _decision(policy, f"check-{index}", candidates[index % 2])
        before = policy.snapshot()
        policy.learn(decision, RoutingOutcome(decision.id, reward))
        if reward is not None and policy.snapshot() == before:
            problems.append(f"learning the reward {reward!r} left the snapshot {before!r} unchanged")
    return problems + _check_choice(policy, task, candidates)


def _check_choice(policy: RoutingPolicy, task: Task, candidates: Sequence[Candidate]) -> list[str]:
    problems: list[str] = []
    before = policy.snapshot()
    original = list(policy.probabilities(task, candidates))
    for subset in (candidates[:1], candidates[:2], candidates):
        problems += _check_numbers(list(policy.probabilities(task, subset)), len(subset))
    if problems:
        return problems
    expected = {candidate.agent: probability for candidate, probability in zip(candidates, original, strict=True)}
    for order in permutations(candidates):
        for candidate, probability in zip(order, policy.probabilities(task, order), strict=True):
            if not isclose(probability, expected[candidate.agent], abs_tol=1e-9):
                problems.append(
                    f"agent {candidate.agent!r} got {probability!r} instead of {expected[candidate.agent]!r} "
                    "after only the order of the candidates changed"
                )
    if policy.snapshot() != before:
        problems.append("computing probabilities changed the snapshot")
    return problems


def _check_numbers(probabilities: Sequence[float], count: int) -> list[str]:
    problems: list[str] = []
    if len(probabilities) != count:
        problems.append(f"{count} candidates got {len(probabilities)} probabilities")
    if not all(probability > 0 for probability in probabilities):
        problems.append(f"every probability must be above 0, got {probabilities!r}")
    if not isclose(fsum(probabilities), 1, abs_tol=1e-9):
        problems.append(f"probabilities must sum to 1, got {fsum(probabilities)!r}")
    return problems


def _decision(policy: RoutingPolicy, name: str, chosen: Candidate) -> Decision:
    return Decision(
        id=name,
        task_id=name,
        family="check",
        tenant="default",
        policy=policy.name,
        policy_snapshot=policy.snapshot(),
        alternatives=(Alternative(chosen.version, 1.0, None),),
        agent=chosen.agent,
        chosen=chosen.version,
        propensity=1.0,
        reason="contract check",
    )
