"""Outcomes that tests teach to policies."""

from collections.abc import Sequence

import numpy as np

from upturn.arbiter import Candidate, RoutingOutcome, features_of
from upturn.arbiter.policies import LearningPolicy
from upturn.records import Decision, Task

AB = (Candidate("a", "a@1"), Candidate("b", "b@1"))


def task_of(family: str = "mail", instruction: str = "do") -> Task:
    return Task(id="t", instruction=instruction, family=family, environment="office")


def decision_of(name: str, chosen: str, task: Task, policy: LearningPolicy) -> Decision:
    return Decision(
        id=name,
        task_id=name,
        family=task.family,
        tenant="default",
        policy=policy.name,
        policy_snapshot="",
        alternatives=(),
        agent=chosen[0],
        chosen=chosen,
        propensity=1.0,
        reason="test",
        features=features_of(policy, task),
    )


def teach(policy: LearningPolicy, outcomes: Sequence[tuple[str, str, float | None]]) -> None:
    """Teaches outcomes of (family, version, reward)."""
    for number, (family, version, reward) in enumerate(outcomes):
        decision = decision_of(f"d{number}", version, task_of(family), policy)
        policy.learn(decision, RoutingOutcome(decision.id, reward))


def route(policy: LearningPolicy, rates: dict[str, tuple[float, float]], count: int, seed: int) -> list[int]:
    """Routes ``count`` tasks of random families to AB with these success rates; returns the choices."""
    generator, chosen = np.random.default_rng(seed), []
    for number in range(count):
        family = str(generator.choice(list(rates)))
        arm = int(generator.random() >= policy.probabilities(task_of(family), AB)[0])
        reward = float(generator.random() < rates[family][arm])
        decision = decision_of(f"{seed}-{number}", AB[arm].version, task_of(family), policy)
        policy.learn(decision, RoutingOutcome(decision.id, reward))
        chosen.append(arm)
    return chosen
