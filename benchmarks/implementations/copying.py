"""A small model that learns to copy, in a given precision: does rounding slow learning down?"""

from typing import Any

import numpy as np
import torch

from benchmarks.worker_process import Channel, Settings, serve_steps
from benchmarks.workloads import Subject, build_model
from upturn.config import OptimiserSettings
from upturn.records import JsonValue
from upturn.training import Stream, TrainingRow
from upturn.training.losses import CrossEntropy
from upturn.training.optimisation import Trainer

STEPS = 150
SHOWN_EVERY = 25
ROWS = 32
LENGTH = 12
"""Tokens that are shown, and then asked for once more."""
SUBJECT = Subject(width=128, layers=2, vocabulary=64, positions=64)


def curve_side(channel: Channel, settings: Settings) -> None:
    """Answers with the loss (nats a token) every 25 steps, the first one before any training."""
    threads, precision = settings["threads"], settings["precision"]
    assert isinstance(threads, int)
    torch.set_num_threads(threads)
    chosen: dict[str, Any] = {"precision": precision}
    trainer = Trainer(build_model(SUBJECT), OptimiserSettings(learning_rate=1e-3, warmup_steps=10, **chosen))
    losses: list[JsonValue] = []
    for index in range(STEPS + 1):
        loss = trainer.step([Stream(copying_rows(index), CrossEntropy(), float(ROWS * LENGTH))]).loss
        if index % SHOWN_EVERY == 0:
            losses.append(round(loss, 4))
    serve_steps(channel, {"losses": losses}, lambda: {})


def copying_rows(index: int) -> list[TrainingRow]:
    """Random tokens and the same again; the second half is written. A new batch for each index."""
    rng = np.random.default_rng(index)
    rows = []
    for row in range(ROWS):
        shown = rng.integers(0, SUBJECT.vocabulary, LENGTH)
        positions = np.arange(LENGTH, 2 * LENGTH)
        weights = np.ones(LENGTH, dtype=np.float32)
        rows.append(TrainingRow(f"{index}-{row}", np.concatenate([shown, shown]), positions, weights, None))
    return rows
