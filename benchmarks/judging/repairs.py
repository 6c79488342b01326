"""Steps a second of the code-repair environment with two processes, and the time of its sandbox."""

import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from benchmarks.comparison import Bar
from upturn.environments.repair.kit import RepairKit
from upturn.environments.sandbox import Bubblewrap
from upturn.environments.sandbox.session import SandboxSession
from upturn.environments.scripted_policy import fixed_policy, play
from upturn.records import Action, Result, Task

PROCESSES = 2
_STEPS_BAR = Bar(40)
_COLD_BAR, _WARM_BAR = Bar(30, is_upper=True), Bar(5, is_upper=True)


class _Worked(NamedTuple):
    steps: int
    successes: int


_KIT = RepairKit()


def measure_repairs(count: int, seed: int) -> list[Result]:
    """``count`` tasks: list, read, test, repair, test, submit, and the verification; starts of processes excluded.

    Raises RuntimeError where a task is not repaired, SandboxError where nothing may run.
    """
    tasks = list(islice(_KIT.tasks(seed=seed, split="train", families=list(_KIT.families)), count))
    parts = [tasks[number::PROCESSES] for number in range(PROCESSES)]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        list(pool.map(_draw, parts))
        list(pool.map(_work, [part[:1] for part in parts]))  # imports, and the sandbox's own test
        begun = time.perf_counter()
        worked = list(pool.map(_work, parts))
        seconds = time.perf_counter() - begun
    repaired = sum(part.successes for part in worked)
    if repaired != count:
        raise RuntimeError(f"{count} tasks were to be repaired, and {repaired} were")
    steps = sum(part.steps for part in worked) / seconds
    rate = Result("repair steps with two processes", steps, "1/s", n=count)
    return [_with_bar(rate, _STEPS_BAR), *measure_sandbox(20)]


def _with_bar(result: Result, bar: Bar) -> Result:
    return replace(result, bar=bar.text, holds=bar.holds(float(result.value)))


def _draw(tasks: Sequence[Task]) -> None:
    """Fills the cache of tasks: drawing one is not a step."""
    for task in tasks:
        _KIT.hint(task)


def _work(tasks: Sequence[Task]) -> _Worked:
    steps = successes = 0
    for task in tasks:
        environment = _KIT.environment(task)
        edits = _edits(task)
        looks = [Action("repo", "list_files"), *(_read(edit) for edit in edits), Action("repo", "run_tests")]
        actions = [*looks, *edits, Action("repo", "run_tests"), Action("repo", "submit")]
        try:
            trajectory = play(environment, task, fixed_policy(actions))
        finally:
            environment.close()
        steps += len(trajectory.turns)
        successes += _KIT.verifier.verify(task, trajectory).is_success
    return _Worked(steps, successes)


def _edits(task: Task) -> list[Action]:
    policy = _KIT.oracle(task)
    environment = _KIT.environment(task)
    observation, _ = environment.reset(task)
    environment.close()
    turns: list[object] = []
    actions: list[Action] = []
    while (action := policy(task, turns, observation)) is not None:  # type: ignore[arg-type]  # it counts them
        actions.append(action)
        turns.append(action)
    return actions[:-1]


def _read(edit: Action) -> Action:
    return Action("repo", "read_file", {"path": edit.parameters["path"]})


def measure_sandbox(repetitions: int) -> list[Result]:
    """Milliseconds of a script that does nothing: the first one of a sandbox, and a later one; the median."""
    cold: list[float] = []
    warm: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(repetitions + 1):
            session = SandboxSession(Bubblewrap(Path(folder)))
            times = []
            for _ in range(3):
                begun = time.perf_counter()
                session.run_python("pass", seconds=10, output_limit=10)
                times.append(1_000 * (time.perf_counter() - begun))
            session.close()
            if number:  # the first one ran the sandbox's own test
                cold.append(times[0])
                warm.append(times[2])
    return [
        _with_bar(Result(f"script in a {name} sandbox, p50", statistics.median(values), "ms", n=len(values)), bar)
        for name, values, bar in (("cold", cold, _COLD_BAR), ("warm", warm, _WARM_BAR))
    ]
