"""Rollouts by two workers of a cluster on this machine, against one process: are they the same, what do they cost.

The same means bitwise: each worker plays the half that it is dealt at once, so one process that plays the two
halves one after the other computes the same batches. Overhead is processor time of all processes together, beyond
that of one process that plays everything at once: on a machine with fewer cores than processes seconds on the clock
say nothing. Part of it is that halves make smaller batches, wherever they are played; that part is told apart. All
have played once before they are measured: what a new process does only once is not what workers cost.
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
    """How much is played."""

    tasks: int = 48
    attempts: int = 8
    repetitions: int = 25


class Cost(NamedTuple):
    """Of one call."""

    seconds: float
    processor_seconds: float
    """Of this process and all that it started."""


def require_ray() -> None:
    """Raises MeasurementError (exit code 2) with how to install Ray when it is not there."""
    if find_spec("ray") is None:
        error = MeasurementError(
            "this part plays on Ray workers, and Ray is not installed; run: .venv/bin/pip install -e '.[ray]' "
            "(or name, with --part, parts that need no Ray)"
        )
        error.exit_code = 2
        raise error


def measure_workers(
    settings: WorkersSettings, *, has_bars: bool = True, on_done: Callable[[], None] = lambda: None
) -> tuple[list[Result], dict[str, JsonValue]]:
    """``on_done`` each repetition. Raises MeasurementError without Ray, ClusterError where it does not start."""
    require_ray()
    from upturn.agents import RaySettings, RayWorkerPool
    from upturn.loop.rollouts import OpenPolicyWorker, PolicyWorker, RayRuntime
    from upturn.training.optimisation import torch_threads

    kit = resolve_kit(ENVIRONMENT)
    tasks = list(islice(kit.tasks(seed=_SEED, split="train", families=list(kit.families)), settings.tasks))
    jobs = [(_VERSION, task, number) for task in tasks for number in range(settings.attempts)]
    alone, halved, together = list[Cost](), list[Cost](), list[Cost]()
    different, tokens = 0, 0
    with (
        TemporaryDirectory() as folder,
        torch_threads(1),
        RayWorkerPool(OpenPolicyWorker(ENVIRONMENT, _LIMITS, _VERSION), RaySettings(WORKERS)) as crew,
    ):
        worker = PolicyWorker(AgentRuntime(kit, _LIMITS), _VERSION)
        worker.serve_as(_VERSION)
        runtime = RayRuntime(kit, _LIMITS, crew, Path(folder))
        runtime.follow(worker.model)
        first = Purpose("workers/first", settings.repetitions, temperature=1.0)
        runtime.attempt(jobs, first)  # weights are handed over, once
        worker.runtime.attempt(jobs, first)
        for repetition in range(settings.repetitions):
            purpose = Purpose(f"workers/{repetition}", repetition, temperature=1.0)
            # Functions are called at once, so that they may bind what changes with the repetition.
            halves, cost = timed(lambda: played_in_parts(worker.runtime, jobs, purpose))  # noqa: B023
            halved.append(cost)
            made, cost = timed(lambda: runtime.attempt(jobs, purpose))  # noqa: B023
            together.append(cost)
            alone.append(timed(lambda: worker.runtime.attempt(jobs, purpose))[1])  # noqa: B023
            different += count_different(made, halves)
            tokens += sum(each.usage.written_tokens for each in made)
            on_done()
    clock = spread([each.seconds / one.seconds for each, one in zip(together, alone, strict=True)])
    bars = (Bar(0, is_upper=True), Bar(0.15, is_upper=True)) if has_bars else (None, None)
    results = [
        result("workers_different_trajectories", float(different), "trajectories", bars[0]),
        result("workers_overhead", _beyond(together, alone), "of processor time", bars[1]),
        result("workers_halves", _beyond(halved, alone), "of processor time, in one process"),
        result("workers_clock", clock, "of one process"),
    ]
    return results, {"workers": WORKERS, "trajectories": len(jobs) * settings.repetitions, "written_tokens": tokens}


def _beyond(costs: Sequence[Cost], base: Sequence[Cost]) -> Spread:
    """Processor time beyond that of ``base``, as a part of it."""
    ratios = spread([each.processor_seconds / one.processor_seconds for each, one in zip(costs, base, strict=True)])
    return Spread(ratios.value - 1, ratios.low - 1, ratios.high - 1, ratios.n)


def played_in_parts(
    runtime: AgentRuntime, jobs: Sequence[tuple[AgentVersion, Task, int]], purpose: Purpose
) -> list[Trajectory]:
    """What one process makes of the workers' parts, one after another; the parts are those of ``cluster.deal``."""
    ends = [len(jobs) * part // WORKERS for part in range(WORKERS + 1)]
    return [each for start, end in pairwise(ends) for each in runtime.attempt(jobs[start:end], purpose)]


def count_different(found: Sequence[Trajectory], expected: Sequence[Trajectory]) -> int:
    """How many differ in anything but the time that they took."""

    def essence(each: Trajectory) -> Trajectory:
        return replace(each, usage=replace(each.usage, seconds=0.0))

    return sum(essence(one) != essence(other) for one, other in zip(found, expected, strict=True))


def timed(play: Callable[[], list[Trajectory]]) -> tuple[list[Trajectory], Cost]:
    """What came of it, and what it took."""
    before, started = processor_seconds(), perf_counter()
    found = play()
    return found, Cost(perf_counter() - started, processor_seconds() - before)


def processor_seconds() -> float:
    """Of this process and all that it started and that still runs; by Linux's ``/proc``."""
    used: dict[int, float] = {}
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name stands in brackets and may hold anything: proc(5) counts fields from behind it.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(folder.name)] = int(fields[1])
        used[int(folder.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return sum(seconds for process, seconds in used.items() if _descends(process, parents))


def _descends(process: int, parents: Mapping[int, int]) -> bool:
    """Whether it is this process or was started by it, or by what it started."""
    while process not in {0, os.getpid()}:
        process = parents.get(process, 0)
    return process != 0
