"""What both sides of an iteration comparison are told, and the tasks that they practise, in the same order."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from benchmarks.errands import LEARNED, ErrandsKit
from upturn.config import Limits
from upturn.records import JsonValue, Task

LIMITS = Limits(max_turns=10, max_tokens=512, max_action_tokens=40)
LEARNING_RATE = 1e-6
"""So small that the policy, and with it what it samples, stays the same over all repetitions."""


@dataclass(frozen=True, slots=True)
class PracticeTask:
    """One iteration: so many tasks with so many attempts each, all sampled, scored and trained on in one step."""

    tasks: int
    attempts: int
    iterations: int
    """Iterations that there are tasks for."""
    threads: int
    seed: int = 0

    def settings(self) -> dict[str, JsonValue]:
        """As JSON, for ``read_practice``."""
        return asdict(self)

    def tasks_of(self, iteration: int) -> list[Task]:
        """The iteration's own tasks: every family alike, no task twice."""
        stream = ErrandsKit().tasks(seed=self.seed, split="train", families=LEARNED)
        return list(islice(stream, iteration * self.tasks, (iteration + 1) * self.tasks))


def read_practice(settings: Mapping[str, Any]) -> PracticeTask:  # Any: settings come as JSON from our own parent
    """What ``PracticeTask.settings`` gave; further keys are the side's own."""
    names = ("tasks", "attempts", "iterations", "threads", "seed")
    return PracticeTask(**{name: settings[name] for name in names})
