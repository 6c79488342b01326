"""Rollouts by two Ray workers on this machine compared with one process: equality and overhead.

Rollouts have to be equal bitwise. Each worker runs its half of the jobs as one batch, so one process that runs the
two halves one after the other computes the same batches. Overhead is processor time of all processes beyond that of
one process that runs all jobs at once; on a machine with fewer cores than processes, seconds on the clock mean
nothing. The part of the overhead that comes from smaller batches is reported separately. All processes run the jobs
once before the measurement, as a warm-up.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

from benchmarks.comparison import Bar, Spread, result, spread
from benchmarks.errands import ENVIRONMENT, MODEL
from upturn.config import Limits
from upturn.environments import resolve_kit
from upturn.errors import MeasurementError
from upturn.loop import AgentRuntime, Purpose
from upturn.records import AgentVersion, JsonValue, Result, Task, Trajectory

WORKERS = 2
_LIMITS = Limits(max_turns=16, max_tokens=512, max_action_tokens=64)
_VERSION = AgentVersion("nano", "1", "local_model", model=MODEL)
_SEED = 3


@dataclass(frozen=True, slots=True)
class WorkersSettings:
    """Number of rollouts."""

    tasks: int = 48
    group_size: int = 8
    repetitions: int = 25


class Cost(NamedTuple):
    """Time of one call."""

    seconds: float
    processor_seconds: float
    """Of this process and its descendants."""


def require_ray() -> None:
    """Raises MeasurementError (exit code 2) with the install command when Ray is not installed."""
    if find_spec("ray") is None:
        error = MeasurementError(
            "this part samples on Ray workers, and Ray is not installed; run: .venv/bin/pip install -e '.[ray]' "
            "(or name, with --part, parts that need no Ray)"
        )
        error.exit_code = 2
        raise error


def measure_workers(
    settings: WorkersSettings, *, has_bars: bool = True, on_done: Callable[[], None] = lambda: None
) -> tuple[list[Result], dict[str, JsonValue]]:
    """Differences and overhead; calls ``on_done`` after each repetition.

    Raises MeasurementError without Ray, and ClusterError when Ray does not start.
    """
    require_ray()
    from upturn.agents import RaySettings, RayWorkerPool
    from upturn.loop.rollouts import PolicyWorker, PolicyWorkerFactory, RayRuntime
    from upturn.training.optimisation import torch_threads

    kit = resolve_kit(ENVIRONMENT)
    tasks = list(islice(kit.tasks(seed=_SEED, split="train", families=list(kit.families)), settings.tasks))
    jobs = [(_VERSION, task, number) for task in tasks for number in range(settings.group_size)]
    single_costs, halved_costs, worker_costs = list[Cost](), list[Cost](), list[Cost]()
    different, tokens = 0, 0
    with (
        TemporaryDirectory() as folder,
        torch_threads(1),
        RayWorkerPool(PolicyWorkerFactory(ENVIRONMENT, _LIMITS, _VERSION), RaySettings(WORKERS)) as workers,
    ):
        worker = PolicyWorker(AgentRuntime(kit, _LIMITS), _VERSION)
        worker.serve_as(_VERSION)
        runtime = RayRuntime(kit, _LIMITS, workers, Path(folder))
        warm_up = Purpose("workers/first", settings.repetitions, temperature=1.0)
        runtime.rollout(jobs, warm_up)  # sends the weights, once
        worker.runtime.rollout(jobs, warm_up)
        for repetition in range(settings.repetitions):
            purpose = Purpose(f"workers/{repetition}", repetition, temperature=1.0)
            # Functions are called at once, so that they may bind what changes with the repetition.
            halves, cost = timed(lambda: run_in_parts(worker.runtime, jobs, purpose))  # noqa: B023
            halved_costs.append(cost)
            trajectories, cost = timed(lambda: runtime.rollout(jobs, purpose))  # noqa: B023
            worker_costs.append(cost)
            single_costs.append(timed(lambda: worker.runtime.rollout(jobs, purpose))[1])  # noqa: B023
            different += count_different(trajectories, halves)
            tokens += sum(trajectory.usage.written_tokens for trajectory in trajectories)
            on_done()
    clock = [cost.seconds / single.seconds for cost, single in zip(worker_costs, single_costs, strict=True)]
    bars = (Bar(0, is_upper=True), Bar(0.15, is_upper=True)) if has_bars else (None, None)
    halves_overhead = _overhead(halved_costs, single_costs)
    results = [
        result("workers_different_trajectories", float(different), "trajectories", bars[0]),
        result("workers_overhead", _overhead(worker_costs, single_costs), "of processor time", bars[1]),
        result("workers_halves", halves_overhead, "of processor time, in one process"),
        result("workers_clock", spread(clock), "of one process"),
    ]
    return results, {"workers": WORKERS, "trajectories": len(jobs) * settings.repetitions, "written_tokens": tokens}


def _overhead(costs: Sequence[Cost], base: Sequence[Cost]) -> Spread:
    """Processor time beyond that of ``base``, as a share of it."""
    return spread(
        [cost.processor_seconds / other.processor_seconds - 1 for cost, other in zip(costs, base, strict=True)]
    )


def run_in_parts(
    runtime: AgentRuntime, jobs: Sequence[tuple[AgentVersion, Task, int]], purpose: Purpose
) -> list[Trajectory]:
    """Trajectories of one process that runs the workers' parts one after another."""
    ends = [len(jobs) * part // WORKERS for part in range(WORKERS + 1)]
    return [trajectory for start, end in pairwise(ends) for trajectory in runtime.rollout(jobs[start:end], purpose)]


def count_different(trajectories: Sequence[Trajectory], expected: Sequence[Trajectory]) -> int:
    """Number of trajectories that differ in anything but their duration."""

    def without_seconds(trajectory: Trajectory) -> Trajectory:
        return replace(trajectory, usage=replace(trajectory.usage, seconds=0.0))

    return sum(
        without_seconds(one) != without_seconds(other) for one, other in zip(trajectories, expected, strict=True)
    )


def timed(call: Callable[[], list[Trajectory]]) -> tuple[list[Trajectory], Cost]:
    """The result and the cost of a call."""
    before, started = processor_seconds(), perf_counter()
    trajectories = call()
    return trajectories, Cost(perf_counter() - started, processor_seconds() - before)


def processor_seconds() -> float:
    """Processor time of this process and its running descendants, from Linux's ``/proc``."""
    seconds: dict[int, float] = {}
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name is in brackets and may contain anything: proc(5) counts fields from behind it.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        parents[int(folder.name)] = int(fields[1])
        seconds[int(folder.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return sum(value for process, value in seconds.items() if _is_descendant(process, parents))


def _is_descendant(process: int, parents: Mapping[int, int]) -> bool:
    """True for this process and all that it started, directly or not."""
    while process not in {0, os.getpid()}:
        process = parents.get(process, 0)
    return process != 0
