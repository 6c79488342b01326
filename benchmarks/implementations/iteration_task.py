"""The input of every implementation of a training iteration, and its tasks, in the same order for all."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import Any

from benchmarks.errands import LEARNED, ErrandsKit
from upturn.config import Limits
from upturn.records import Evaluation, JsonValue, Task, Trajectory

LIMITS = Limits(max_turns=10, max_tokens=512, max_action_tokens=40)
LEARNING_RATE = 1e-6
"""So small that the policy, and with it what it samples, stays the same over all repetitions."""


@dataclass(frozen=True, slots=True)
class IterationTask:
    """Iterations of ``tasks`` groups each, which are sampled, scored and trained on in one optimiser step."""

    tasks: int
    group_size: int
    iterations: int
    """Iterations with tasks."""
    threads: int
    seed: int = 0

    def settings(self) -> dict[str, JsonValue]:
        """As JSON, for ``parse_iteration_task``."""
        return asdict(self)

    def tasks_of(self, iteration: int) -> list[Task]:
        """Tasks of one iteration: every family equally often, no task twice."""
        stream = ErrandsKit().tasks(seed=self.seed, split="train", families=LEARNED)
        return list(islice(stream, iteration * self.tasks, (iteration + 1) * self.tasks))


def parse_iteration_task(settings: Mapping[str, Any]) -> IterationTask:  # Any: JSON from our own parent process
    """The task with these ``settings()``; further keys are ignored."""
    return IterationTask(**{field.name: settings[field.name] for field in fields(IterationTask)})


class NullSink:
    """A trajectory sink that drops everything."""

    def append(self, run: str, iteration: int, finished: Sequence[tuple[Task, Trajectory, Evaluation]]) -> None:
        """Does nothing."""
