"""The library's implementation of the update: its trainer, with the rows that an algorithm passes to it."""

from typing import Any

import torch
from torch import Tensor

from benchmarks.implementations.update_task import (
    CLIP_HIGH,
    CLIP_LOW,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    parse_update_task,
    save_gradient,
)
from benchmarks.machine import device_name, matrix_rate, now, product_rate
from benchmarks.worker_process import Channel, Settings, Values, serve_steps
from benchmarks.workloads import build_model, make_workload, training_rows
from upturn.config import OptimiserSettings
from upturn.training import Stream, TokenBatch, TokenStatistics
from upturn.training.losses import ClippedPolicy
from upturn.training.optimisation import Trainer


class GapRecorder:
    """The clipped objective; records the distance of log-probs from the rows' reference log-probs."""

    def __init__(self) -> None:
        self._policy = ClippedPolicy(CLIP_LOW, CLIP_HIGH)
        self._gaps: list[Tensor] = []

    def losses(self, batch: TokenBatch) -> Tensor:
        """The policy's losses."""
        if batch.reference_logprobs is not None:
            self._gaps.append((batch.logprobs.detach().float() - batch.reference_logprobs).abs())
        return self._policy.losses(batch)

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """The policy's statistics."""
        return self._policy.statistics(batch)

    def pop_gaps(self) -> dict[str, float]:
        """Mean and largest |Δ log p| of the steps since the last call, at least one."""
        gaps, self._gaps = torch.cat(self._gaps), []
        return {"mean_logprob_gap": float(gaps.mean()), "max_logprob_gap": float(gaps.max())}


class _Update:
    """One trainer with one batch."""

    def __init__(self, settings: Settings) -> None:
        """Of the settings, ``optimiser`` holds the fields of ``OptimiserSettings`` that are not defaults."""
        self.task = parse_update_task(settings)
        torch.set_num_threads(self.task.threads)
        model = build_model(self.task.model, self.task.device)
        workload = make_workload(self.task.workload)
        options: Any = settings["optimiser"]
        optimiser = OptimiserSettings(learning_rate=LEARNING_RATE, max_grad_norm=MAX_GRAD_NORM, **options)
        self.objective = GapRecorder()
        self.trainer = Trainer(model, optimiser)
        rows = training_rows(workload, self.task.load_model_logprobs())
        self.minibatch = [Stream(rows, self.objective, float(workload.written_tokens))]
        self.trainer.optimiser.adamw[0].register_step_pre_hook(self._save_first_gradient)

    def step(self) -> Values:
        """Figures of one timed step."""
        started = now(self.task.device)
        metrics = self.trainer.step(self.minibatch)
        seconds = now(self.task.device) - started
        return {
            "seconds": seconds,
            "loss": metrics.loss,
            "physical_tokens": metrics.physical_tokens,
            "fallbacks": metrics.fallbacks,
            "attention": dict(metrics.attention),
            **self.objective.pop_gaps(),
        }

    def _save_first_gradient(self, *_: object) -> None:
        if self.task.gradient is not None and self.trainer.steps == 0:
            save_gradient(self.trainer.model, self.task.gradient)


def serve_update(channel: Channel, settings: Settings) -> None:
    """Sends the first step, whose gradient it writes, and then further steps."""
    update = _Update(settings)
    channel.mark_baseline(update.task.device)
    serve_steps(channel, update.step(), update.step)


def serve_utilisation(channel: Channel, settings: Settings) -> None:
    """Like ``serve_update``; with each step it sends the best rate of large matrix products before and after it.

    Products are in float32 on a CPU and in bfloat16 on a GPU, whose name is sent with the first step. Their
    matrices (0.2 GB, 0.4 GB on a GPU) are the memory peak where a step has a smaller one.
    """
    update = _Update(settings)
    device = update.task.device
    channel.mark_baseline(device)
    first = update.step()
    before = _product_rate(device)

    def step() -> Values:
        nonlocal before
        figures, after = update.step(), _product_rate(device)
        best, before = max(before, after), after
        return {**figures, "matrix_rate": best}

    serve_steps(channel, {**first, "device_name": device_name(device)}, step)


def _product_rate(device: str) -> float:
    return matrix_rate() if device == "cpu" else product_rate(device)
