"""A conversation with a side without a process."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.implementations.update_task import UpdateTask
from benchmarks.worker_process import Channel, Side
from benchmarks.workloads.model import Subject
from benchmarks.workloads.workload import WorkloadSettings, make_workload, save_workload
from upturn.records import JsonValue

Talk = Callable[[Side, Mapping[str, JsonValue], int], list[dict[str, JsonValue]]]


@pytest.fixture
def talk() -> Talk:
    """All answers of a side that is asked for so many steps."""

    def converse(side: Side, settings: Mapping[str, JsonValue], steps: int) -> list[dict[str, JsonValue]]:
        told = io.StringIO("step\n" * steps)
        answered = io.StringIO()
        side(Channel(told, answered), settings)
        return [json.loads(line) for line in answered.getvalue().splitlines()]

    return converse


@pytest.fixture
def task(tmp_path: Path) -> UpdateTask:
    """A tiny model and four rollouts that share a prompt."""
    settings = WorkloadSettings(
        prompt_tokens=24, attempts=4, turns=(2, 3), action_tokens=(3, 5), observation_tokens=(4, 8), vocabulary=64
    )
    workload = make_workload(replace(settings, shared_turns=1))
    save_workload(workload, tmp_path / "rollouts.npz")
    subject = Subject(width=64, layers=2, vocabulary=64, positions=128)
    return UpdateTask(subject, tmp_path / "rollouts.npz", tmp_path / "own.npy", 1, tmp_path / "dense.safetensors")
