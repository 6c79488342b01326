"""``upturn env bench``: how fast an environment's tasks are begun, worked on and judged, and what many take.

Everything is measured on one core, in seconds of the processor: what else runs on the machine does not count.
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

AT_ONCE = 128
"""Environments that are held at once."""
COLD = 8
"""Times that a task is begun with nothing at hand."""


class Bar(NamedTuple):
    """What one core has to do."""

    limit: float
    is_most: bool = False
    """Whether the figure must not be above it; not below it otherwise."""

    @property
    def text(self) -> str:
        """``>= 5000``"""
        return f"{'<=' if self.is_most else '>='} {self.limit:g}"

    def holds(self, value: float) -> bool:
        """Whether the figure keeps it."""
        return value <= self.limit if self.is_most else value >= self.limit


BARS = {
    "resets_per_second": Bar(1_000),
    "steps_per_second": Bar(5_000),
    "verify_p99": Bar(2, is_most=True),
    "verify_failed_p99": Bar(2, is_most=True),
    "memory_128": Bar(1_024, is_most=True),
}
"""For the environments that come with the package."""


def bench(
    name: Annotated[str, typer.Argument(help="An environment whose kit knows an oracle, such as the office.")],
    *,
    tasks: Annotated[int, typer.Option(min=10, help="Tasks of each family.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """How fast tasks begin, are worked on and judged, on one core. Exit code 1 where one of ours misses a bar."""
    kit = resolve_kit(name)
    bars = BARS if name in registered_kits() else {}
    with progress("benchmark", 6) as ticker:
        results = []
        for part in _parts(kit, tasks * len(kit.families)):
            results += [_against(bars.get(result.name), result) for result in part]
            ticker.advance()
    emit(
        "env bench",
        results,
        {"families": len(kit.families), "tasks_per_family": tasks, "cores": 1},
        as_json=as_json,
    )
    if any(result.holds is False for result in results):
        raise typer.Exit(1)


def _against(bar: Bar | None, result: Result) -> Result:
    if bar is None:
        return result
    value = float(result.value)
    return Result(result.name, value, result.unit, n=result.n, bar=bar.text, holds=bar.holds(value))


def _parts(kit: EnvironmentKit, count: int) -> Iterator[list[Result]]:
    """The cold beginning first; then with everything at hand that tasks share."""
    yield _cold(kit)
    _warm(kit, count)
    drawn, reset = _resetting(kit, count)
    yield reset
    solved = [_solution(kit, task) for task in drawn]
    yield _stepping(kit, drawn, solved)
    yield _judging(kit, drawn, solved)
    if isinstance(kit, CachingKit):
        kit.forget()
        _warm(kit, count)
        yield _judged("verify_first", kit, zip(drawn, solved, strict=True))
    yield _holding(kit, drawn, solved)


def _stream(kit: EnvironmentKit, seed: int) -> Iterator[Task]:
    return kit.tasks(seed=seed, split="train", families=list(kit.families))


def _warm(kit: EnvironmentKit, count: int) -> None:
    """Makes what tasks share, by beginning tasks that are not those that are measured."""
    for task in islice(_stream(kit, 0), count):
        kit.environment(task).reset(task)


def _cold(kit: EnvironmentKit) -> list[Result]:
    """Milliseconds until a task has begun of which nothing is at hand; empty where the kit keeps nothing."""
    if not isinstance(kit, CachingKit):
        return []
    seconds = []
    for seed in range(COLD):
        kit.forget()
        started = process_time()
        task = next(_stream(kit, seed))
        kit.environment(task).reset(task)
        seconds.append(process_time() - started)
    return [Result("cold_reset", 1000 * median(seconds), "ms", n=COLD)]


def _resetting(kit: EnvironmentKit, count: int) -> tuple[list[Task], list[Result]]:
    """Tasks that nobody saw before, drawn and begun; and the tasks."""
    stream, drawn = _stream(kit, 1), []
    started = process_time()
    for _ in range(count):
        task = next(stream)
        kit.environment(task).reset(task)
        drawn.append(task)
    return drawn, [Result("resets_per_second", count / (process_time() - started), "1/s", n=count)]


def _solution(kit: EnvironmentKit, task: Task) -> Trajectory:
    oracle = oracle_of(kit, task)
    if oracle is None:
        raise UnknownNameError(
            f"env bench needs an environment with an oracle; {kit.name!r} has none for {task.id!r}"
        )
    return play(kit.environment(task), task, oracle)


def _acted(environment: Environment, task: Task, solution: Trajectory) -> tuple[int, float]:
    """Perfect work, as agents write it: how many steps it took and how many seconds, with reading each line and
    without ``reset``."""
    lines = [action_text(action) for action in actions_of(solution)]
    environment.reset(task)
    started = process_time()
    for line in lines:
        environment.step(read_action(line) or MALFORMED)
    return len(lines), process_time() - started


def _stepping(kit: EnvironmentKit, tasks: Sequence[Task], solved: Sequence[Trajectory]) -> list[Result]:
    """Steps of perfect work."""
    steps, seconds = 0, 0.0
    for task, solution in zip(tasks, solved, strict=True):
        taken, spent = _acted(kit.environment(task), task, solution)
        steps, seconds = steps + taken, seconds + spent
    return [Result("steps_per_second", steps / seconds, "1/s", n=steps)]


def _judging(kit: EnvironmentKit, tasks: Sequence[Task], solved: Sequence[Trajectory]) -> list[Result]:
    """Of perfect work, of attempts that failed, and of perfect work with its formulas in other words."""
    pairs = list(zip(tasks, solved, strict=True))
    failed = [(task, each) for task, solution in pairs for each in _failed(kit, task, solution)]
    reworded = [(task, each) for task, solution in pairs for each in _reworded(kit, task, solution)]
    return [
        *_judged("verify", kit, pairs),
        *_judged("verify_failed", kit, failed),
        *_judged("verify_formulas", kit, reworded),
    ]


def _judged(name: str, kit: EnvironmentKit, attempts: Iterable[tuple[Task, Trajectory]]) -> list[Result]:
    """Milliseconds of one judgement: the middle and the slowest hundredth; empty where there are fewer than two."""
    seconds = []
    for task, trajectory in attempts:
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


def _failed(kit: EnvironmentKit, task: Task, solution: Trajectory) -> Iterator[Trajectory]:
    """All of the work without its end, and half of it with its end, where that fails."""
    *work, end = actions_of(solution)
    for actions in (work, [*work[: len(work) // 2], end]):
        attempt = play(kit.environment(task), task, fixed_policy(actions))
        if not kit.verifier.verify(task, attempt).is_success:
            yield attempt


def _reworded(kit: EnvironmentKit, task: Task, solution: Trajectory) -> Iterator[Trajectory]:
    """The work with other formulas, where it has any: the same by other words, and wrong ones."""
    actions = actions_of(solution)
    for more in ("+0", "+1"):
        other = [_with_formulas(action, more) for action in actions]
        if other != list(actions):
            yield play(kit.environment(task), task, fixed_policy(other))


def _with_formulas(action: Action, more: str) -> Action:
    """The action with ``more`` behind each formula."""
    parameters = {
        name: f"{value}{more}" if isinstance(value, str) and value.startswith("=") else value
        for name, value in action.parameters.items()
    }
    return replace(action, parameters=parameters)


def _holding(kit: EnvironmentKit, tasks: Sequence[Task], solved: Sequence[Trajectory]) -> list[Result]:
    """The most memory that this process ever took, while so many environments are in the middle of their tasks."""
    held = []
    for task, solution in islice(zip(tasks, solved, strict=True), AT_ONCE):
        environment = kit.environment(task)
        _acted(environment, task, solution)
        held.append(environment)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return [Result("memory_128", peak / 2**20, "MB", n=len(held))]
