"""The comparison of workers with one process: what is the same, and what it is measured by."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

import pytest

from benchmarks.algorithms import ray_workers as workers_part
from benchmarks.algorithms.ray_workers import (
    WORKERS,
    WorkersSettings,
    count_different,
    measure_workers,
    played_in_parts,
    processor_seconds,
)
from benchmarks.errands import ENVIRONMENT
from upturn.agents.cluster import split_evenly
from upturn.config import Limits
from upturn.environments.kit import resolve_kit
from upturn.errors import MeasurementError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.records import AgentVersion, Observation, Task, Trajectory, Turn, Usage

ATTEMPT = Trajectory("t", "x", "a@1", (Turn(Observation("o"), "w", None),), Observation(""), "finished", "sampled")


def test_only_seconds_may_differ() -> None:
    later = replace(ATTEMPT, usage=Usage(seconds=3.0))
    other = replace(ATTEMPT, turns=(Turn(Observation("o"), "v", None),))
    assert count_different([ATTEMPT, later, other], [later, ATTEMPT, ATTEMPT]) == 1
    assert count_different([replace(ATTEMPT, model_version="w")], [ATTEMPT]) == 1


class _Remembers(AgentRuntime):
    """A runtime that only remembers how it was asked."""

    def __init__(self) -> None:
        super().__init__(resolve_kit(ENVIRONMENT), Limits())
        self.asked: list[list[int]] = []

    def attempt(
        self, jobs: Sequence[tuple[AgentVersion, Task, int]], purpose: Purpose, begin: object = None
    ) -> list[Trajectory]:
        self.asked.append([number for _, _, number in jobs])
        return [replace(ATTEMPT, id=str(number)) for _, _, number in jobs]


@pytest.mark.parametrize("count", [2, 5, 8])
def test_one_process_plays_the_parts_that_workers_are_dealt(count: int) -> None:
    runtime, version, task = _Remembers(), AgentVersion("a", "1", "rule_based"), Task("x", "", "f", "e")
    found = played_in_parts(runtime, [(version, task, number) for number in range(count)], Purpose("p", 0, 1.0))
    numbers: list[object] = list(range(count))
    assert runtime.asked == [list(part) for part in split_evenly(numbers, WORKERS)]  # type: ignore[arg-type]
    assert [each.id for each in found] == [str(number) for number in range(count)]


def test_time_of_what_this_process_started_counts() -> None:
    """The child burns 0.3 s and lives on until it was looked at."""
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    before = processor_seconds()
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdin is not None
        child.stdout.readline()
        during = processor_seconds()
        child.stdin.close()
    assert during - before >= 0.28  # counted in hundredths


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_part, "find_spec", lambda _: None)
    with pytest.raises(MeasurementError, match=r"Ray is not installed; run: .*\[ray\]") as found:
        measure_workers(WorkersSettings())
    assert found.value.exit_code == 2


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="the extra ray is not installed")
def test_two_workers_give_the_trajectories_of_one_process() -> None:
    done = list[None]()
    results, details = measure_workers(WorkersSettings(4, 3, 2), on_done=lambda: done.append(None))
    values = {each.name: each for each in results}
    assert values["workers_different_trajectories"].value == 0
    assert values["workers_overhead"].n == len(done) == 2
    assert details["trajectories"] == 24
