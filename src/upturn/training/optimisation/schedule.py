"""Learning-rate schedules: warm-up and decay."""

import math
from collections.abc import Callable
from typing import TypeVar

from upturn.training.run_settings import Decay

ResultT = TypeVar("ResultT")


def warmup_factor(step: int, warmup_steps: int) -> float:
    """Share of the learning rate for the step after ``step`` steps: linear up to 1 over ``warmup_steps``."""
    return min(1.0, (step + 1) / (warmup_steps + 1))


def decay_factor(decay: Decay, step: int, total: int, warmup_steps: int) -> float:
    """Share of the learning rate for the step after ``step`` of ``total``: 1 during warm-up, then falling to
    (but not reaching) 0."""
    if decay == "none" or step < warmup_steps:
        return 1.0
    progress = (step - warmup_steps) / max(1, total - warmup_steps)
    return 1 - progress if decay == "linear" else (1 + math.cos(math.pi * progress)) / 2


def schedule(decay: Decay, total: int, warmup_steps: int) -> Callable[[int], float]:
    """Warm-up, then decay over the rest of ``total`` steps: maps steps done to a share of the learning rate."""
    return lambda step: warmup_factor(step, warmup_steps) * decay_factor(decay, step, total, warmup_steps)


class IterationSchedule:
    """Warm-up by optimiser step, decay by iteration: maps steps done to a share of the learning rate.

    The number of steps per iteration is unknown in advance: one without a signal has none. Decay therefore depends
    on the iteration, constant over its steps: ``linear`` goes from 1 in the first to 1/n in the last of n.
    """

    def __init__(self, decay: Decay, iterations: int, warmup_steps: int) -> None:
        self.iteration = 0
        """The current iteration, from 0; updated by ``follow`` or the caller."""
        self._decay: Decay = decay
        self._iterations = iterations
        self._warmup_steps = warmup_steps

    def follow(self, collect: Callable[[int], ResultT]) -> Callable[[int], ResultT]:
        """Wraps ``collect``, which starts an iteration, so that it also updates the schedule."""

        def wrapped(iteration: int, /) -> ResultT:
            self.iteration = iteration
            return collect(iteration)

        return wrapped

    def __call__(self, step: int) -> float:
        """For the step after ``step`` steps, in the current iteration."""
        decay = decay_factor(self._decay, self.iteration, self._iterations, 0)
        return warmup_factor(step, self._warmup_steps) * decay
