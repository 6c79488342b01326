"""Iterations of group-relative training, in turn or with sampling ahead, as ``run_grpo`` makes them."""

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.errands import MODEL, ErrandsKit
from benchmarks.implementations.iteration_task import LEARNING_RATE, LIMITS, read_practice
from benchmarks.implementations.library_iteration import Nowhere
from benchmarks.worker_process import Channel, Settings, serve_steps
from upturn.config import OptimiserSettings
from upturn.loop import AgentRuntime
from upturn.loop.rollouts import PolicyWorker, RolloutPlan
from upturn.records import AgentVersion
from upturn.training import ScoredGroup
from upturn.training.algorithms import PolicyGradient
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.data import AheadCollect
from upturn.training.distributed import restore_weights
from upturn.training.optimisation import Trainer


class Iterations:
    """One model in training, and where it samples ahead another that samples for it."""

    def __init__(self, settings: Settings) -> None:
        """``staleness`` among the settings: 0 = in turn, on all threads; else each of the two has half of them."""
        self._task = read_practice(settings)
        found: Any = settings["staleness"]  # JSON from our own parent
        self._staleness: int = found
        torch.set_num_threads(max(1, self._task.threads // 2) if self._staleness else self._task.threads)
        self._worker = _worker()
        self._sampler = _worker() if self._staleness else self._worker
        self._practice = RolloutPlan("bench", self._task.seed, self._task.attempts)
        self._settings = GrpoSettings(
            iterations=self._task.iterations, optimiser=OptimiserSettings(learning_rate=LEARNING_RATE)
        )

    def step(self) -> dict[str, float]:
        """All iterations, the first collecting included, which nothing overlaps."""
        started = time.perf_counter()
        trainer = Trainer(self._worker.model, self._settings.optimiser)
        waited = written = 0.0
        with self._collecting() as collect:
            algorithm = PolicyGradient(collect or self._sample, self._settings, self._task.seed)
            for iteration in range(self._task.iterations):
                asked = time.perf_counter()
                unit = algorithm.unit(iteration)
                waited += time.perf_counter() - asked
                written += unit.metrics["written_tokens"]
                for minibatch in unit.minibatches:
                    trainer.step(minibatch)
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "waited_seconds": waited, "written_tokens": written}

    def _collecting(self) -> AheadCollect | nullcontext[None]:
        if not self._staleness:
            return nullcontext()
        return AheadCollect(
            self._worker.model, self._sample_with, staleness=self._staleness, iterations=self._task.iterations
        )

    def _sample_with(self, iteration: int, weights: Mapping[str, Tensor]) -> Sequence[ScoredGroup]:
        restore_weights(self._sampler.model, weights)
        return self._sample(iteration)

    def _sample(self, iteration: int, /) -> Sequence[ScoredGroup]:
        tasks = self._task.tasks_of(iteration)
        return self._sampler.sample_groups(tasks, iteration, self._practice, Nowhere())


def _worker() -> PolicyWorker:
    version = AgentVersion("nano", "base", "local_model", model=MODEL, parameters={"temperature": 1.0})
    return PolicyWorker(AgentRuntime(ErrandsKit(), replace(LIMITS, max_tokens=240)), version)


def ahead_side(channel: Channel, settings: Settings) -> None:
    """Makes the iterations once to warm up, and then as often as it is asked."""
    iterations = Iterations(settings)
    channel.mark_baseline()
    serve_steps(channel, iterations.step(), iterations.step)
