"""Routing policies on simulated scenarios against Vowpal Wabbit.

A world has 8 families, 3 topics of instructions and 4 agents. The success rate of an agent depends on family and
topic. All policies see the same tasks, outcomes and draws; regret is the expected reward of the best agent minus
that of the chosen one, summed over the tasks. Vowpal Wabbit's best is its variant with the least mean regret in the
scenario over all seeds, chosen in hindsight, which favours it.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from upturn.arbiter import (
    Candidate,
    HierarchicalThompson,
    LinearThompson,
    LogisticThompson,
    RoutingOutcome,
    RoutingPolicy,
    features_of,
)
from upturn.errors import MeasurementError
from upturn.records import Decision, Result, Task

Array = NDArray[np.float64]

AGENTS = 4
FAMILIES = 8
TOPICS = (
    "sum the columns of the sheet",
    "write a friendly letter to the customer",
    "fix the failing test of parser",
)
SCENARIOS = ("stationary", "drift", "delayed", "missing", "new_agent", "poisoned", "cost_aware")
VOWPAL = (
    "--squarecb --gamma_scale 10 -l 0.5 --power_t 0.0",
    "--squarecb --gamma_scale 10 -l 0.5 --power_t 0.5",
    "--squarecb --gamma_scale 50 -l 0.5 --power_t 0.5",
    "--squarecb --gamma_scale 200 -l 0.5 --power_t 0.5",
    "--squarecb --gamma_scale 200 -l 2.0 --power_t 0.0",
    "--softmax --lambda 10 -l 0.5 --power_t 0.0",
    "--softmax --lambda 10 -l 2.0 --power_t 0.0",
    "--softmax --lambda 30 -l 0.5 --power_t 0.5",
    "--softmax --lambda 30 -l 2.0 --power_t 0.0",
    "--epsilon 0.02 -l 0.5 --power_t 0.0",
)
"""Options of ``--cb_explore_adf``, each with interactions of agent with family and text.

The best of 126 on other seeds: 13 explorers (epsilon, squarecb, bag, cover, regcb, softmax, rnd) with learning
rates .1, .5 and 2, ``power_t`` 0 and .5, and for eight of them also ``--cb_type dr`` (docs/decisions.md)."""
POLICIES: Mapping[str, Callable[[], RoutingPolicy]] = {
    "thompson": HierarchicalThompson,
    "linear_thompson": LinearThompson,
    "logistic_thompson": LogisticThompson,
}
CONTEXTUAL = "logistic_thompson"
"""The policy that is held against Vowpal Wabbit's best."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The tasks of one seed, with everything that chance decides."""

    tasks: tuple[Task, ...]
    rates: Array
    """Success rates, (tasks, agents)."""
    handicaps: Array
    """By agent."""
    uniforms: Array
    """(tasks, 4): for choice, reward, missing and delay or poison."""
    scenario: str

    def eligible(self, index: int) -> int:
        """Returns the number of agents in service: the last one starts at half time in ``new_agent``."""
        return AGENTS - (self.scenario == "new_agent" and index < len(self.tasks) // 2)


def make_stream(scenario: str, count: int, seed: int) -> Stream:
    """Returns the tasks of a scenario."""
    generator = np.random.default_rng([seed, SCENARIOS.index(scenario)])
    shape = (2, FAMILIES, len(TOPICS), AGENTS)
    base = generator.normal(0.6, 0.7, (2, 1, 1, AGENTS)) + generator.normal(0, 0.5, (2, FAMILIES, 1, 1))
    logits = (
        base
        + generator.normal(0, 0.4, (2, FAMILIES, 1, AGENTS))
        + generator.normal(0, 0.9, (2, 1, len(TOPICS), AGENTS))
    )
    rates = np.broadcast_to(1 / (1 + np.exp(-logits)), shape)
    families, topics = generator.integers(FAMILIES, size=count), generator.integers(len(TOPICS), size=count)
    tasks = tuple(
        Task(id=f"t{n}", instruction=TOPICS[topic], family=f"f{family}", environment="call")
        for n, (family, topic) in enumerate(zip(families, topics, strict=True))
    )
    half = (np.arange(count) >= count // 2).astype(int) if scenario == "drift" else np.zeros(count, dtype=int)
    handicaps = np.array([0.3, 0.15, 0.05, 0.0]) if scenario == "cost_aware" else np.zeros(AGENTS)
    return Stream(tasks, rates[half, families, topics], handicaps, generator.random((count, 4)), scenario)


class Learner(Protocol):
    """A policy under measurement."""

    def choose(self, task: Task, agents: int, handicaps: Array) -> Array:
        """Returns the probability of each of the first ``agents`` agents."""

    def learn(self, task: Task, chosen: tuple[int, float], reward: float, handicaps: Array) -> None:
        """Learns the outcome of the chosen (agent, probability)."""


class Upturn:
    """A policy of Upturn."""

    def __init__(self, policy: RoutingPolicy) -> None:
        self.policy = policy

    def choose(self, task: Task, agents: int, handicaps: Array) -> Array:
        """Returns the policy's probabilities."""
        candidates = [Candidate(f"a{n}", f"a{n}@1", float(handicaps[n])) for n in range(agents)]
        return np.array(self.policy.probabilities(task, candidates))

    def learn(self, task: Task, chosen: tuple[int, float], reward: float, handicaps: Array) -> None:  # noqa: ARG002 - contract
        """Learns the outcome of (agent, probability)."""
        agent, probability = chosen
        decision = decision_of(task, agent, probability, features_of(self.policy, task))
        self.policy.learn(decision, RoutingOutcome(decision.id, reward))


class Vowpal:
    """An explorer of Vowpal Wabbit; its cost is handicap − reward."""

    def __init__(self, explorer: str, seed: int) -> None:
        try:
            workspace: Any = import_module("vowpalwabbit").Workspace
        except ImportError as exc:
            raise MeasurementError("the comparison needs Vowpal Wabbit: pip install vowpalwabbit==9.11.9") from exc
        options = f"--cb_explore_adf {explorer} -q AF -q AT --interactions AFT --random_seed {seed} --quiet"
        self._workspace: Any = workspace(options)
        self._agents: dict[str, int] = {}  # by task, the number of agents that it could choose

    def choose(self, task: Task, agents: int, handicaps: Array) -> Array:  # noqa: ARG002 - contract
        """Returns the explorer's probabilities."""
        self._agents[task.id] = agents
        chances = self._workspace.predict(self._example(task, agents, ""))
        return np.asarray(np.array(chances) / sum(chances), dtype=np.float64)

    def learn(self, task: Task, chosen: tuple[int, float], reward: float, handicaps: Array) -> None:
        """Learns the outcome of (agent, probability)."""
        agent, probability = chosen
        label = f"0:{handicaps[agent] - reward:.6f}:{probability:.6f} "
        self._workspace.learn(self._example(task, self._agents.pop(task.id), label, agent))

    def _example(self, task: Task, agents: int, label: str, chosen: int = -1) -> list[str]:
        shared = f"shared |F {task.family} |T {task.instruction}"
        return [shared, *(f"{label if n == chosen else ''}|A a{n}" for n in range(agents))]


def decision_of(task: Task, agent: int, probability: float, features: tuple[float, ...]) -> Decision:
    """Returns a decision with the fields that a policy learns from."""
    return Decision(
        id=task.id,
        task_id=task.id,
        family=task.family,
        tenant="default",
        policy="",
        policy_snapshot="",
        alternatives=(),
        agent=f"a{agent}",
        chosen=f"a{agent}@1",
        propensity=probability,
        reason="simulated",
        features=features,
    )


def regret(learner: Learner, stream: Stream) -> float:
    """Returns the learner's regret over the stream."""
    total, late = 0.0, deque[tuple[int, int, float, float]]()
    for index, task in enumerate(stream.tasks):
        while late and late[0][0] <= index - 100:
            earlier, agent, probability, reward = late.popleft()
            learner.learn(stream.tasks[earlier], (agent, probability), reward, stream.handicaps)
        agents = stream.eligible(index)
        chances = learner.choose(task, agents, stream.handicaps)
        choice, luck, third, fourth = stream.uniforms[index]
        agent = min(int(np.searchsorted(np.cumsum(chances), choice, side="right")), agents - 1)
        values = stream.rates[index, :agents] - stream.handicaps[:agents]
        total += float(values.max() - values[agent])
        reward = float(luck < stream.rates[index, agent])
        if stream.scenario == "missing" and third < 0.3:
            continue
        if stream.scenario == "poisoned" and third < 0.05:
            reward = 1 - reward
        if stream.scenario == "delayed" and fourth < 0.2:
            late.append((index, agent, float(chances[agent]), reward))
            continue
        learner.learn(task, (agent, float(chances[agent])), reward, stream.handicaps)
    return total


def measure_regret(
    scenarios: Sequence[str],
    *,
    tasks: int,
    seeds: int,
    first_seed: int = 0,
    on_done: Callable[[], None] = lambda: None,
) -> list[Result]:
    """Returns the regret of each policy and of Vowpal Wabbit's best, and their difference, by scenario."""
    results: list[Result] = []
    for scenario in scenarios:
        ours: dict[str, list[float]] = {name: [] for name in POLICIES}
        theirs: dict[str, list[float]] = {explorer: [] for explorer in VOWPAL}
        for seed in range(first_seed, first_seed + seeds):
            stream = make_stream(scenario, tasks, seed)
            for name, make in POLICIES.items():
                ours[name].append(regret(Upturn(make()), stream))
            for explorer in VOWPAL:
                theirs[explorer].append(regret(Vowpal(explorer, seed), stream))
            on_done()
        best = min(theirs, key=lambda explorer: sum(theirs[explorer]))
        results.append(_interval(f"{scenario}_vowpal {best}", theirs[best], "regret"))
        results += [_interval(f"{scenario}_{name}", values, "regret") for name, values in ours.items()]
        gap = np.array(ours[CONTEXTUAL]) - np.array(theirs[best])
        row = _interval(f"{scenario}_{CONTEXTUAL}_minus_vowpal", gap.tolist(), "regret", bar="<= 0")
        results.append(row)
    return results


def _interval(name: str, values: Sequence[float], unit: str, bar: str | None = None) -> Result:
    """Returns mean and 95 % normal interval; a bar ``<= 0`` holds if the mean is at most 0."""
    mean = float(np.mean(values))
    half = 1.96 * float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return Result(name, mean, unit, mean - half, mean + half, len(values), bar, None if bar is None else mean <= 0)
