"""Implementations that compute nothing, for tests of the workers. Their processes import this file, so what
only some of them need is imported late."""

import os
import sys
from collections.abc import Mapping

import numpy as np
from safetensors.numpy import save_file

from benchmarks.worker_process import Channel, Settings, serve_steps


def counting(channel: Channel, settings: Settings) -> None:
    """Sends its settings and environment variables, then counts."""
    count = 0

    def step() -> Mapping[str, float]:
        nonlocal count
        count += 1
        return {"seconds": float(count)}

    print("output of a library")  # noqa: T201
    channel.mark_baseline()
    names = ("OMP_NUM_THREADS", "MALLOC_MMAP_MAX_", "MALLOC_ARENA_MAX")
    environment = {name: os.environ.get(name, "") for name in names}
    serve_steps(channel, {"settings": dict(settings), **environment}, step)


def holding(channel: Channel, settings: Settings) -> None:
    """Allocates as many bytes per step as the settings name, and frees them."""
    size = settings["bytes"]
    assert isinstance(size, int)
    channel.mark_baseline()

    def step() -> Mapping[str, float]:
        block = bytearray(size)
        block[::4096] = b"x" * len(block[::4096])  # untouched pages would not be resident
        return {"seconds": 1.0}

    serve_steps(channel, {}, step)


def failing(channel: Channel, settings: Settings) -> None:
    """Raises at once."""
    raise ValueError("these settings are no good")


def dying(channel: Channel, settings: Settings) -> None:
    """Is killed after its preparation, with a message on standard error."""
    channel.send({})
    channel.wait_for_step()
    print("out of everything", file=sys.stderr)  # noqa: T201
    sys.stderr.flush()
    os.kill(os.getpid(), 9)


def dense(channel: Channel, settings: Settings) -> None:
    """The dense path without a model: log-probs of 0, a gradient of one number."""
    from benchmarks.implementations import parse_update_task
    from benchmarks.workloads import make_workload

    task = parse_update_task(settings)
    np.save(task.model_logprobs, np.zeros(make_workload(task.workload).written_tokens, dtype=np.float32))
    _save_gradient(settings, 1.0)
    serve_steps(channel, {"loss": 2.0}, lambda: {"loss": 2.0})


def library(channel: Channel, settings: Settings) -> None:
    """One second per step (bfloat16: half of it), 1 GB, and half of that with checkpointing."""
    optimiser = settings["optimiser"]
    assert isinstance(optimiser, dict)
    _save_gradient(settings, 1.0)
    step: dict[str, float | str] = {
        "seconds": 0.5 if optimiser.get("precision") == "bfloat16" else 1.0,
        "loss": 2.0,
        "matrix_rate": 2e14,
        "device_name": "NVIDIA H200",
        "physical_tokens": 300.0,
        "fallbacks": 0,
        "peak_bytes": 2**29 if optimiser.get("gradient_checkpointing") else 2**30,
        "mean_logprob_gap": 0.01,
        "max_logprob_gap": 0.1,
    }
    _serve_with_fake_peak(channel, step)


def trl(channel: Channel, settings: Settings) -> None:
    """Ten seconds with checkpointing; without, fastest with two rows at once. Adds FAKE_GAP to its gradient."""
    micro_batch = settings["micro_batch"]
    assert isinstance(micro_batch, int)
    _save_gradient(settings, 1.0 + float(os.environ.get("FAKE_GAP", "0")))
    seconds = 10.0 if settings["gradient_checkpointing"] else {1: 8.0, 2: 4.0, 4: 5.0, 8: 20.0}[micro_batch]
    _serve_with_fake_peak(channel, {"seconds": seconds, "loss": 2.0, "peak_bytes": micro_batch * 2**30})


def iterations(channel: Channel, settings: Settings) -> None:
    """Two seconds per iteration for the library, four for TRL, whose reward FAKE_REWARD sets."""
    is_trl = "micro_batch" in settings
    reward = float(os.environ.get("FAKE_REWARD", "0.5")) if is_trl else 0.5
    step = {"seconds": 4.0 if is_trl else 2.0, "sampling_seconds": 1.0, "reward": reward, "written_tokens": 100.0}
    _serve_with_fake_peak(channel, {**step, "peak_bytes": 2**30})


def copying(channel: Channel, settings: Settings) -> None:
    """Learns at once."""
    serve_steps(channel, {"losses": [4.0, 0.0]}, dict)


def _save_gradient(settings: Settings, value: float) -> None:
    save_file({"w": np.array([value], dtype=np.float32)}, str(settings["gradient"]))


def _serve_with_fake_peak(channel: Channel, step: Mapping[str, float | str]) -> None:
    """Sends the peak memory of ``step`` instead of the process's."""
    channel.send = lambda values: channel._write(dict(values))  # type: ignore[method-assign]
    serve_steps(channel, step, lambda: step)
