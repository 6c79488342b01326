"""Model selection: evaluations during training, on tasks that are not trained on, decide which weights are kept."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from upturn.loop.evaluation.evaluate import evaluate_version, evaluation_tasks
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import FEWEST_SET_ASIDE, SET_ASIDE, Context, FileKit
from upturn.records import Task
from upturn.training import EpochSettings, Evaluate, EvaluationResult, IterationSettings

SELECTION_TASKS = 108
"""Tasks for model selection: training templates in worlds of other seeds, so that no choice depends on held-out
tasks. In the office these worlds are other items in the base offices of training."""
SELECTION_SEED = 7_919
"""Added to the run's seed for these tasks."""


class SelectionTasks(NamedTuple):
    """The tasks of a run's model selection."""

    tasks: Sequence[Task]
    measure: str
    """Description of success on them."""
    is_unseen: bool = True
    """False = the tasks are trained on too, because there are no others."""


def selection_tasks(context: Context) -> SelectionTasks:
    """Tasks in unseen worlds, or those that a file sets aside; its training tasks if it has too few."""
    seed, families = context.seed + SELECTION_SEED, context.trained_families
    if isinstance(context.kit, FileKit):
        aside = list(islice(context.kit.set_aside(seed=seed, families=families), SELECTION_TASKS))
        if aside:
            return SelectionTasks(aside, "success on training tasks that are set aside and never trained on")
    tasks = evaluation_tasks(context.kit, families, SELECTION_TASKS, seed=seed, split="train")
    if not isinstance(context.kit, FileKit):
        return SelectionTasks(tasks, "success on training templates in unseen worlds")
    return SelectionTasks(
        tasks,
        "success on tasks that are trained on too: the file has too few to set some aside, so it is biased upwards",
        is_unseen=False,
    )


def configured_evaluation(
    context: Context, worker: PolicyWorker, name: str, settings: EpochSettings | IterationSettings
) -> Evaluate | None:
    """``selection_evaluation``; None if ``evaluate_every`` is unset."""
    return None if settings.evaluate_every is None else selection_evaluation(context, worker, name)


def selection_evaluation(context: Context, worker: PolicyWorker, name: str) -> Evaluate:
    """The evaluation that selects a training run's weights.

    Costs are means over the tasks that have them. Adds a note to the progress if the tasks are trained on too.
    """
    tasks, measure, is_unseen = selection_tasks(context)
    if not is_unseen:
        context.progress.note(
            f"model selection uses tasks that are trained on too: {context.config.tasks.file!r} has too few "
            f"training tasks to set aside {FEWEST_SET_ASIDE} (that takes about {FEWEST_SET_ASIDE * SET_ASIDE})"
        )

    def evaluate(_iterations: int) -> EvaluationResult:
        version = worker.serve_as(worker.version)  # sampled where training samples
        result = evaluate_version(worker.runtime, version, tasks, context.purpose(f"{name}/watch"), pool=None)
        context.progress.figure("unseen worlds" if is_unseen else "training tasks", result.rate())
        interval, costs = result.interval(), result.costs()
        return EvaluationResult(
            result.rate(),
            {name: cost.mean for name, cost in costs.items()},
            low=interval.low,
            high=interval.high,
            tasks=len(result.marks),
            measure=measure,
            figures={f"proxy_{name}": score for name, score in result.proxies().items()},
            missing_costs={name: cost.missing for name, cost in costs.items() if cost.missing},
        )

    return evaluate
