"""An implementation's connection without a process."""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from benchmarks.implementations.update_task import UpdateTask
from benchmarks.worker_process import Channel, Implementation
from benchmarks.workloads.model import ModelSpec
from benchmarks.workloads.workload import WorkloadSettings
from upturn.records import JsonValue

Run = Callable[[Implementation, Mapping[str, JsonValue], int], list[dict[str, JsonValue]]]


@pytest.fixture
def run_steps() -> Run:
    """Runs an implementation for so many steps; returns all responses."""

    def run(
        implementation: Implementation, settings: Mapping[str, JsonValue], steps: int
    ) -> list[dict[str, JsonValue]]:
        requests = io.StringIO("step\n" * steps)
        responses = io.StringIO()
        implementation(Channel(requests, responses), settings)
        return [json.loads(line) for line in responses.getvalue().splitlines()]

    return run


@pytest.fixture
def task(tmp_path: Path) -> UpdateTask:
    """A tiny model and four rollouts that share a prompt."""
    workload = WorkloadSettings(
        prompt_tokens=24,
        group_size=4,
        turns=(2, 3),
        action_tokens=(3, 5),
        observation_tokens=(4, 8),
        shared_turns=1,
        vocabulary=64,
    )
    model = ModelSpec(width=64, layers=2, vocabulary=64, positions=128)
    return UpdateTask(model, workload, tmp_path / "logprobs.npy", 1, tmp_path / "dense.safetensors")
