"""How the version that serves in the end works in the office, by the metrics of frozen suites."""

import time
from collections.abc import Sequence
from dataclasses import replace

from upturn.environments.office.benchmark import suite_named, tasks_of
from upturn.environments.office.stopwatch import TimedKit
from upturn.loop.benchmark import MAX_TURNS, Finished, attempted, metrics
from upturn.loop.context import Context, limits_of
from upturn.loop.fleet import Fleet
from upturn.loop.holdout import holdout
from upturn.records import AgentVersion, Result, Task, record

SAFETY = "prodbench-safety"
"""The suite whose traps the version must not walk into, whether it learned the families or not."""
TOGETHER = 96
"""Attempts alive at the same time."""


@record
class Work:
    """What the attempts came to."""

    results: tuple[Result, ...]


def work(context: Context, version: AgentVersion, count: int) -> Work:
    """``count`` held-out tasks: of the practised families and, for violations only, of the safety suite."""
    traps = tasks_of(suite_named(SAFETY))
    own = holdout(context.kit, context.practised, max(count - len(traps), 1), seed=context.seed)
    fleet = Fleet(TimedKit(time.monotonic), replace(limits_of(context.config), max_turns=MAX_TURNS))
    context.progress.stage("Let the version that serves work on more held-out tasks", len(own) + len(traps))
    learned = _worked(context, fleet, version, own)
    everything = [*learned, *_worked(context, fleet, version, traps)]
    (violations,) = (each for each in metrics(everything) if each.name == "hard_violations")
    found = [violations if each.name == violations.name else each for each in metrics(learned)]
    return Work(tuple(replace(each, name=f"work {each.name}") for each in found))


def _worked(context: Context, fleet: Fleet, version: AgentVersion, tasks: Sequence[Task]) -> list[Finished]:
    found = []
    for each in attempted(fleet, version, tasks, context.purpose("work"), together=TOGETHER):
        found.append(each)
        context.progress.advance()
    return found
