"""``upturn env bench``: measures the speed of an environment's resets, steps and verifier, and its memory.

Everything is measured on one core, in CPU seconds, so that other processes do not count.
"""

import resource
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from statistics import median, quantiles
from time import process_time
from typing import Annotated, NamedTuple

import typer

from upturn.cli.options import AsJson
from upturn.cli.output import emit, progress
from upturn.environments import (
    MALFORMED,
    CachingKit,
    Environment,
    EnvironmentKit,
    action_text,
    fixed_policy,
    oracle_of,
    play,
    read_action,
    registered_kits,
    resolve_kit,
)
from upturn.environments.validation import actions_of
from upturn.errors import UnknownNameError
from upturn.records import Action, Result, Task, Trajectory

CONCURRENT = 128
"""Number of environments for the memory measurement."""
COLD_RESETS = 8


class Bar(NamedTuple):
    """A bar of a figure on one core."""

    limit: float
    is_maximum: bool = False
    """False = the limit is a minimum."""

    @property
    def text(self) -> str:
        """``>= 5000``"""
        return f"{'<=' if self.is_maximum else '>='} {self.limit:g}"

    def holds(self, value: float) -> bool:
        """Whether the value meets the bar."""
        return value <= self.limit if self.is_maximum else value >= self.limit


BARS = {
    "resets_per_second": Bar(1_000),
    "steps_per_second": Bar(5_000),
    "verify_p99": Bar(2, is_maximum=True),
    "verify_failed_p99": Bar(2, is_maximum=True),
    "memory_128": Bar(1_024, is_maximum=True),
}
"""Bars of the environments that run nothing outside this process: the package's without a sandbox."""


def bench(
    name: Annotated[str, typer.Argument(help="An environment with an oracle, such as the office.")],
    *,
    tasks: Annotated[int, typer.Option(min=10, help="Tasks per family.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Benchmark an environment's resets, steps, verifier and memory on one core.

    Exits with 1 if an environment of the package misses a bar.
    """
    kit = resolve_kit(name)
    bars = BARS if name in registered_kits() and not name.startswith("repair") else {}
    with progress("benchmark", 6) as ticker:
        results = []
        for part in _parts(kit, tasks * len(kit.families)):
            results += [_with_bar(result, bars.get(result.name)) for result in part]
            ticker.advance()
    details = {"families": len(kit.families), "tasks_per_family": tasks, "cores": 1}
    emit("env bench", results, details, as_json=as_json)
    if any(result.holds is False for result in results):
        raise typer.Exit(1)


def _with_bar(result: Result, bar: Bar | None) -> Result:
    return result if bar is None else replace(result, bar=bar.text, holds=bar.holds(float(result.value)))


def _parts(kit: EnvironmentKit, count: int) -> Iterator[list[Result]]:
    """Results of the cold resets, then those with warm caches."""
    yield _measure_cold_resets(kit)
    _warm_up(kit, count)
    tasks, resets = _measure_resets(kit, count)
    yield resets
    solutions = [_solve(kit, task) for task in tasks]
    yield _measure_steps(kit, tasks, solutions)
    yield _measure_verifier(kit, tasks, solutions)
    if isinstance(kit, CachingKit):
        kit.forget()
        _warm_up(kit, count)
        yield _time_verifier("verify_first", kit, zip(tasks, solutions, strict=True))
    yield _measure_memory(kit, tasks, solutions)


def _stream(kit: EnvironmentKit, seed: int) -> Iterator[Task]:
    return kit.tasks(seed=seed, split="train", families=list(kit.families))


def _warm_up(kit: EnvironmentKit, count: int) -> None:
    """Fills the caches that tasks share, with tasks that are not measured."""
    for task in islice(_stream(kit, 0), count):
        kit.environment(task).reset(task)


def _measure_cold_resets(kit: EnvironmentKit) -> list[Result]:
    """Milliseconds of a reset with empty caches; empty if the kit has no caches."""
    if not isinstance(kit, CachingKit):
        return []
    seconds = []
    for seed in range(COLD_RESETS):
        kit.forget()
        started = process_time()
        task = next(_stream(kit, seed))
        kit.environment(task).reset(task)
        seconds.append(process_time() - started)
    return [Result("cold_reset", 1000 * median(seconds), "ms", n=COLD_RESETS)]


def _measure_resets(kit: EnvironmentKit, count: int) -> tuple[list[Task], list[Result]]:
    """New tasks, and how fast they are drawn and reset."""
    stream, tasks = _stream(kit, 1), []
    started = process_time()
    for _ in range(count):
        task = next(stream)
        kit.environment(task).reset(task)
        tasks.append(task)
    return tasks, [Result("resets_per_second", count / (process_time() - started), "1/s", n=count)]


def _solve(kit: EnvironmentKit, task: Task) -> Trajectory:
    oracle = oracle_of(kit, task)
    if oracle is None:
        raise UnknownNameError(
            f"env bench requires an environment with an oracle; {kit.name!r} has none for {task.id!r}"
        )
    return play(kit.environment(task), task, oracle)


def _play(environment: Environment, task: Task, solution: Trajectory) -> tuple[int, float]:
    """Plays a solution from its text; returns the steps and their seconds, with parsing and without ``reset``."""
    lines = [action_text(action) for action in actions_of(solution)]
    environment.reset(task)
    started = process_time()
    for line in lines:
        environment.step(read_action(line) or MALFORMED)
    return len(lines), process_time() - started


def _measure_steps(kit: EnvironmentKit, tasks: Sequence[Task], solutions: Sequence[Trajectory]) -> list[Result]:
    steps, seconds = 0, 0.0
    for task, solution in zip(tasks, solutions, strict=True):
        task_steps, task_seconds = _play(kit.environment(task), task, solution)
        steps, seconds = steps + task_steps, seconds + task_seconds
    return [Result("steps_per_second", steps / seconds, "1/s", n=steps)]


def _measure_verifier(kit: EnvironmentKit, tasks: Sequence[Task], solutions: Sequence[Trajectory]) -> list[Result]:
    """Times on solutions, on failed trajectories, and on solutions with changed formulas."""
    pairs = list(zip(tasks, solutions, strict=True))
    failed = [(task, failure) for task, solution in pairs for failure in _failures(kit, task, solution)]
    changed = [(task, variant) for task, solution in pairs for variant in _formula_variants(kit, task, solution)]
    return [
        *_time_verifier("verify", kit, pairs),
        *_time_verifier("verify_failed", kit, failed),
        *_time_verifier("verify_formulas", kit, changed),
    ]


def _time_verifier(name: str, kit: EnvironmentKit, pairs: Iterable[tuple[Task, Trajectory]]) -> list[Result]:
    """Median and 99th percentile of the verifier's milliseconds; empty for fewer than two trajectories."""
    seconds = []
    for task, trajectory in pairs:
        started = process_time()
        kit.verifier.verify(task, trajectory)
        seconds.append(process_time() - started)
    if len(seconds) < 2:
        return []
    cuts = quantiles(seconds, n=100)
    return [
        Result(f"{name}_p50", 1000 * cuts[49], "ms", n=len(seconds)),
        Result(f"{name}_p99", 1000 * cuts[98], "ms", n=len(seconds)),
    ]


def _failures(kit: EnvironmentKit, task: Task, solution: Trajectory) -> Iterator[Trajectory]:
    """The solution without its last action, and half of it with its last action, unless they succeed."""
    *actions, last = actions_of(solution)
    for part in (actions, [*actions[: len(actions) // 2], last]):
        trajectory = play(kit.environment(task), task, fixed_policy(part))
        if not kit.verifier.verify(task, trajectory).is_success:
            yield trajectory


def _formula_variants(kit: EnvironmentKit, task: Task, solution: Trajectory) -> Iterator[Trajectory]:
    """The solution with equivalent and with wrong formulas; nothing if it has no formulas."""
    actions = actions_of(solution)
    for suffix in ("+0", "+1"):
        variant = [_extend_formulas(action, suffix) for action in actions]
        if variant != list(actions):
            yield play(kit.environment(task), task, fixed_policy(variant))


def _extend_formulas(action: Action, suffix: str) -> Action:
    parameters = {
        name: f"{value}{suffix}" if isinstance(value, str) and value.startswith("=") else value
        for name, value in action.parameters.items()
    }
    return replace(action, parameters=parameters)


def _measure_memory(kit: EnvironmentKit, tasks: Sequence[Task], solutions: Sequence[Trajectory]) -> list[Result]:
    """This process's peak memory with many environments alive."""
    environments = []
    for task, solution in islice(zip(tasks, solutions, strict=True), CONCURRENT):
        environment = kit.environment(task)
        _play(environment, task, solution)
        environments.append(environment)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return [Result("memory_128", peak / 2**20, "MB", n=len(environments))]
