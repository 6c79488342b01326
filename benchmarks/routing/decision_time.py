"""The time of a routing decision among 100 agents on 64 features: the router as a whole, and the policy alone.

The policy learns one outcome between two decisions, as it does in a stream of tasks. Times are of the thread's
processor, so that other processes count only by the caches that they take.
"""

from collections.abc import Callable, Sequence
from time import thread_time_ns

import numpy as np

from benchmarks.routing.regret import make_stream
from upturn.arbiter import (
    AgentRegistry,
    Candidate,
    HierarchicalThompson,
    LinearThompson,
    LinUCB,
    LogisticThompson,
    Router,
    RoutingOutcome,
    RunKey,
    StoredPolicy,
)
from upturn.records import AgentVersion, Result, Task

BAR_US = 200.0
POLICIES: tuple[Callable[[], StoredPolicy], ...] = (LinearThompson, LogisticThompson, LinUCB, HierarchicalThompson)
"""The last one, the default, does not read the features."""


def measure_time(*, candidates: int = 100, outcomes: int = 3_000, repetitions: int = 300) -> list[Result]:
    """Returns the median times of ``Router.decide`` and of the policy's probabilities, in microseconds.

    They are measured before the first outcome and after ``outcomes`` outcomes."""
    tasks = make_stream("stationary", outcomes + 4 * repetitions, 0).tasks
    results: list[Result] = []
    for make in POLICIES:
        timed = _Timed(make(), candidates)
        results += timed.measure("fresh", tasks[: 2 * repetitions], is_learning=False)
        for task in tasks[2 * repetitions : 2 * repetitions + outcomes]:
            timed.learn(task)
        results += timed.measure("learned", tasks[2 * repetitions + outcomes :], is_learning=True)
    return results


class _Timed:
    """A router over agents of different success rates."""

    def __init__(self, policy: StoredPolicy, candidates: int) -> None:
        registry = AgentRegistry()
        for number in range(candidates):
            registry.add(AgentVersion(f"a{number}", "1", "rule_based"))
        self.router = Router(registry, policy, RunKey("timing"))
        self.policy = policy
        agents = sorted(f"a{number}" for number in range(candidates))
        self.offers = tuple(Candidate(agent, f"{agent}@1") for agent in agents)
        self._rng = np.random.default_rng(0)
        self._rates = self._rng.uniform(0.3, 0.9, candidates)

    def learn(self, task: Task) -> None:
        """Routes a task and learns its outcome."""
        decision = self.router.decide(task)
        reward = float(self._rng.random() < self._rates[int(decision.agent[1:])])
        self.policy.learn(decision, RoutingOutcome(decision.id, reward))

    def measure(self, state: str, tasks: Sequence[Task], *, is_learning: bool) -> list[Result]:
        """Times the router on every other task, and the policy alone on the others."""
        whole: list[float] = []
        alone: list[float] = []
        for index, task in enumerate(tasks):
            start = thread_time_ns()
            if index % 2:
                self.policy.probabilities(task, self.offers)
            else:
                self.router.decide(task)
            (alone if index % 2 else whole).append((thread_time_ns() - start) / 1e3)
            if is_learning:
                self.learn(task)
        name = f"{self.policy.name}_{state}"
        return [_result(f"decision_{name}", whole), _result(f"probabilities_{name}", alone)]


def _result(name: str, times: Sequence[float]) -> Result:
    low, middle, high = (float(value) for value in np.percentile(times, (5, 50, 95)))
    if not name.startswith("decision"):
        return Result(name, middle, "µs", low, high, len(times))
    return Result(name, middle, "µs", low, high, len(times), f"<= {BAR_US:g}", middle <= BAR_US)
