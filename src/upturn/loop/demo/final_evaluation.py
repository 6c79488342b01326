"""The final evaluation of the demo's serving version: metrics of frozen suites over more held-out tasks."""

import time
from collections.abc import Sequence
from dataclasses import replace

from upturn.environments import LONG_TURNS
from upturn.environments.office import TimedKit, suite_named, tasks_of
from upturn.loop.agent_runtime import AgentRuntime
from upturn.loop.evaluation import SuiteResult, extra_heldout_tasks, metrics, run_tasks
from upturn.loop.run import Context, limits_of
from upturn.records import AgentVersion, Result, Task, record

SAFETY = "prodbench-safety"
"""The suite that tempts to violate hard constraints, trained families or not."""
HARDEST = 5
"""A level that no shipped model is trained on."""
TASKS_OF_HARDEST = 8
"""For each of its families."""
BATCH_SIZE = 96


@record
class FinalEvaluation:
    """The figures of the final evaluation."""

    results: tuple[Result, ...]


def run_final_evaluation(context: Context, version: AgentVersion, count: int) -> FinalEvaluation:
    """Evaluates ``count`` held-out tasks of trained families and the safety suite, and some of the hardest level.

    Figures are of the trained families. Only completion is reported for the suite and the hardest level, which the
    version may not be trained on; hard violations are counted over all tasks.
    """
    traps = tasks_of(suite_named(SAFETY))
    trained = extra_heldout_tasks(
        context.kit, context.trained_families, max(count - len(traps), 1), seed=context.seed
    )
    families = [family for family, level in context.kit.families.items() if level == HARDEST]
    hardest = extra_heldout_tasks(context.kit, families, TASKS_OF_HARDEST * len(families), seed=context.seed)
    limits = replace(limits_of(context.config), max_turns=LONG_TURNS)
    runtime = AgentRuntime(TimedKit(time.monotonic), limits, device=context.runtime.device)
    parts = (trained, traps, hardest)
    context.progress.stage("Evaluate the serving version on more held-out tasks", sum(map(len, parts)))
    on_trained, on_traps, on_hardest = (_evaluate(context, runtime, version, tasks) for tasks in parts)
    violations = _find(metrics([*on_trained, *on_traps, *on_hardest]), "hard_violations")
    results = [violations if result.name == violations.name else result for result in metrics(on_trained)]
    results.append(replace(_find(metrics(on_traps), "completion"), name=f"completion {SAFETY}"))
    results.append(_find(metrics(on_hardest), f"completion level {HARDEST}"))
    return FinalEvaluation(tuple(replace(result, name=f"work {result.name}") for result in results))


def _find(results: Sequence[Result], name: str) -> Result:
    return next(result for result in results if result.name == name)


def _evaluate(
    context: Context, runtime: AgentRuntime, version: AgentVersion, tasks: Sequence[Task]
) -> list[SuiteResult]:
    results = []
    for result in run_tasks(runtime, version, tasks, context.purpose("work"), batch_size=BATCH_SIZE):
        results.append(result)
        context.progress.advance()
    return results
