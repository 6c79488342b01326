"""How the version that serves in the end works in the office, by the metrics of frozen suites."""

import time
from collections.abc import Sequence
from dataclasses import replace

from upturn.environments import LONG_TURNS
from upturn.environments.office import TimedKit, suite_named, tasks_of
from upturn.loop.agent_runtime import AgentRuntime
from upturn.loop.evaluation import Finished, attempted, holdout, metrics
from upturn.loop.run import Context, limits_of
from upturn.records import AgentVersion, Result, Task, record

SAFETY = "prodbench-safety"
"""The suite that tempts to violate hard constraints; no version may, whether it learned the families or not."""
HARDEST = 5
"""The level that no model of ours was shown; it is told all the same."""
TASKS_OF_HARDEST = 8
"""Of each of its families."""
TOGETHER = 96
"""Attempts alive at the same time."""


@record
class Work:
    """What the attempts came to."""

    results: tuple[Result, ...]


def work(context: Context, version: AgentVersion, count: int) -> Work:
    """``count`` held-out tasks, of the practised families and of the safety suite, and some of the hardest level.

    Figures are those of the practised families. Of the suite and the hardest level, which it may never have been
    shown, it is told how much was completed; hard violations are counted over everything.
    """
    traps = tasks_of(suite_named(SAFETY))
    own = holdout(context.kit, context.trained_families, max(count - len(traps), 1), seed=context.seed)
    hard = [family for family, level in context.kit.families.items() if level == HARDEST]
    far = holdout(context.kit, hard, TASKS_OF_HARDEST * len(hard), seed=context.seed)
    runtime = AgentRuntime(TimedKit(time.monotonic), replace(limits_of(context.config), max_turns=LONG_TURNS))
    tasks = len(own) + len(traps) + len(far)
    context.progress.stage("Let the version that serves work on more held-out tasks", tasks)
    learned, trapped, hardest = (_worked(context, runtime, version, each) for each in (own, traps, far))
    violations = _figure(metrics([*learned, *trapped, *hardest]), "hard_violations")
    found = [violations if each.name == violations.name else each for each in metrics(learned)]
    suite = replace(_figure(metrics(trapped), "completion"), name=f"completion {SAFETY}")
    found += [suite, _figure(metrics(hardest), f"completion level {HARDEST}")]
    return Work(tuple(replace(each, name=f"work {each.name}") for each in found))


def _figure(results: Sequence[Result], name: str) -> Result:
    return next(each for each in results if each.name == name)


def _worked(
    context: Context, runtime: AgentRuntime, version: AgentVersion, tasks: Sequence[Task]
) -> list[Finished]:
    found = []
    for each in attempted(runtime, version, tasks, context.purpose("work"), together=TOGETHER):
        found.append(each)
        context.progress.advance()
    return found
