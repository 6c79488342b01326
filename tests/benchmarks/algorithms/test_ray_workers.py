"""The comparison of Ray workers with one process: equality and processor time."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

import pytest

from benchmarks.algorithms import ray_workers
from benchmarks.algorithms.ray_workers import (
    WORKERS,
    WorkersSettings,
    count_different,
    measure_workers,
    processor_seconds,
    run_in_parts,
)
from benchmarks.errands import ENVIRONMENT
from upturn.agents.cluster import split_evenly
from upturn.config import Limits
from upturn.environments.kit import resolve_kit
from upturn.errors import MeasurementError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.records import AgentVersion, Observation, Task, Trajectory, Turn, Usage

TRAJECTORY = Trajectory(
    "t", "x", "a@1", (Turn(Observation("o"), "w", None),), Observation(""), "finished", "sampled"
)


def test_only_seconds_may_differ() -> None:
    later = replace(TRAJECTORY, usage=Usage(seconds=3.0))
    other = replace(TRAJECTORY, turns=(Turn(Observation("o"), "v", None),))
    assert count_different([TRAJECTORY, later, other], [later, TRAJECTORY, TRAJECTORY]) == 1
    assert count_different([replace(TRAJECTORY, model_version="w")], [TRAJECTORY]) == 1


class _RecordingRuntime(AgentRuntime):
    """A runtime that only records its calls."""

    def __init__(self) -> None:
        super().__init__(resolve_kit(ENVIRONMENT), Limits())
        self.numbers: list[list[int]] = []

    def rollout(
        self, jobs: Sequence[tuple[AgentVersion, Task, int]], purpose: Purpose, branch_points: object = None
    ) -> list[Trajectory]:
        self.numbers.append([number for _, _, number in jobs])
        return [replace(TRAJECTORY, id=str(number)) for _, _, number in jobs]


@pytest.mark.parametrize("count", [2, 5, 8])
def test_one_process_runs_the_parts_of_the_workers(count: int) -> None:
    runtime, version, task = _RecordingRuntime(), AgentVersion("a", "1", "rule_based"), Task("x", "", "f", "e")
    trajectories = run_in_parts(runtime, [(version, task, number) for number in range(count)], Purpose("p", 0, 1.0))
    numbers: list[object] = list(range(count))
    assert runtime.numbers == [list(part) for part in split_evenly(numbers, WORKERS)]  # type: ignore[arg-type]
    assert [trajectory.id for trajectory in trajectories] == [str(number) for number in range(count)]


def test_time_of_child_processes_counts() -> None:
    """The child uses 0.3 s and runs until it was measured."""
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    before = processor_seconds()
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdin is not None
        child.stdout.readline()
        during = processor_seconds()
        child.stdin.close()
    assert during - before >= 0.28  # counted in hundredths


def test_without_ray_it_reports_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_workers, "find_spec", lambda _: None)
    with pytest.raises(MeasurementError, match=r"Ray is not installed; run: .*\[ray\]") as error:
        measure_workers(WorkersSettings())
    assert error.value.exit_code == 2


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="the extra ray is not installed")
def test_two_workers_give_the_trajectories_of_one_process() -> None:
    done = list[None]()
    results, details = measure_workers(WorkersSettings(4, 3, 2), on_done=lambda: done.append(None))
    values = {row.name: row for row in results}
    assert values["workers_different_trajectories"].value == 0
    assert values["workers_overhead"].n == len(done) == 2
    assert details["trajectories"] == 24
