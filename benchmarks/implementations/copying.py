"""A small model that learns to copy, in one precision: shows whether rounding slows training down."""

from typing import Any

import numpy as np
import torch

from benchmarks.worker_process import Channel, Settings, serve_steps
from benchmarks.workloads import ModelSpec, build_model
from upturn.config import OptimiserSettings
from upturn.records import JsonValue
from upturn.training import Stream, TrainingRow
from upturn.training.losses import CrossEntropy
from upturn.training.optimisation import Trainer

STEPS = 150
REPORT_EVERY = 25
ROWS = 32
LENGTH = 12
"""Tokens to copy."""
MODEL = ModelSpec(width=128, layers=2, vocabulary=64, positions=64)


def serve_losses(channel: Channel, settings: Settings) -> None:
    """Sends the loss (nats per token) every 25 steps, the first before any training. Steps do nothing."""
    threads, precision = settings["threads"], settings["precision"]
    assert isinstance(threads, int)
    torch.set_num_threads(threads)
    options: dict[str, Any] = {"precision": precision}
    trainer = Trainer(build_model(MODEL), OptimiserSettings(learning_rate=1e-3, warmup_steps=10, **options))
    losses: list[JsonValue] = []
    for index in range(STEPS + 1):
        loss = trainer.step([Stream(copying_rows(index), CrossEntropy(), float(ROWS * LENGTH))]).loss
        if index % REPORT_EVERY == 0:
            losses.append(round(loss, 4))
    serve_steps(channel, {"losses": losses}, dict)


def copying_rows(index: int) -> list[TrainingRow]:
    """A batch for each index: random tokens and their copy, which is trained on."""
    rng = np.random.default_rng(index)
    rows = []
    for row in range(ROWS):
        tokens = rng.integers(0, MODEL.vocabulary, LENGTH)
        positions = np.arange(LENGTH, 2 * LENGTH)
        weights = np.ones(LENGTH, dtype=np.float32)
        rows.append(TrainingRow(f"{index}-{row}", np.concatenate([tokens, tokens]), positions, weights, None))
    return rows
