"""Memory of a step on CUDA is torch's count beyond the baseline; memory on the CPU is tested with the workers."""

import io
import json

import pytest
import torch

from benchmarks.worker_process import Channel, serve_steps


def test_cuda_peak_is_torchs_since_the_step_was_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    held, peak = [100], [100]
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: held[0])
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: peak[0])
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: peak.__setitem__(0, held[0]))
    sizes = iter([40, 30])
    responses = io.StringIO()
    channel = Channel(io.StringIO("step\nstep\n"), responses)

    def step() -> dict[str, float]:
        peak[0] = max(peak[0], held[0] + next(sizes))
        return {}

    channel.mark_baseline("cuda")
    serve_steps(channel, {}, step)
    assert [json.loads(line)["peak_bytes"] for line in responses.getvalue().splitlines()] == [0, 40, 30]
