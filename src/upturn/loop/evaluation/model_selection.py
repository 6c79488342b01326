"""The watch on a training run: tasks that nothing is trained on say which of its weights become a version."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from upturn.loop.evaluation.evaluate import evaluate_version, evaluation_tasks
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import FEWEST_SET_ASIDE, SET_ASIDE, Context, FileKit
from upturn.records import Task
from upturn.training import EpochSettings, Evaluate, EvaluationResult, IterationSettings

SELECTION_TASKS = 108
"""Tasks on which a training run is watched and its best weights are chosen: training templates in unseen worlds,
so that the held-out tasks stay untouched by any choice."""
SELECTION_SEED = 7_919
"""Added to the run's seed for them."""


class Watched(NamedTuple):
    """What a training run is watched on."""

    tasks: Sequence[Task]
    measure: str
    """What success on them is, in words."""
    is_unseen: bool = True
    """False: the tasks are trained on too, because there are no others."""


def watched(context: Context) -> Watched:
    """Tasks in unseen worlds; of a file those that it sets aside, or where those are too few the training tasks."""
    seed, families = context.seed + SELECTION_SEED, context.trained_families
    if not isinstance(context.kit, FileKit):
        tasks = evaluation_tasks(context.kit, families, SELECTION_TASKS, seed=seed, split="train")
        return Watched(tasks, "success on training templates in unseen worlds")
    aside = list(islice(context.kit.set_aside(seed=seed, families=families), SELECTION_TASKS))
    if aside:
        return Watched(aside, "success on training tasks that are set aside and never trained on")
    tasks = evaluation_tasks(context.kit, families, SELECTION_TASKS, seed=seed, split="train")
    return Watched(
        tasks,
        "success on tasks that are trained on too: the file has too few to set some aside, so it is biased upwards",
        is_unseen=False,
    )


def watch_of(
    context: Context, worker: PolicyWorker, name: str, settings: EpochSettings | IterationSettings
) -> Evaluate | None:
    """``watcher``, where the settings ask for evaluations."""
    return None if settings.evaluate_every is None else watcher(context, worker, name)


def watcher(context: Context, worker: PolicyWorker, name: str) -> Evaluate:
    """The evaluation that a training run is watched by, and its best weights are chosen by.

    Costs are means over the tasks that were judged for them: what could not be judged is no proof of good conduct.
    Notes where the tasks are trained on too.
    """
    tasks, measure, is_unseen = watched(context)
    if not is_unseen:
        context.progress.note(
            f"weights are chosen on tasks that are trained on too: {context.config.tasks.file!r} has too few "
            f"training tasks for {FEWEST_SET_ASIDE} to be set aside ({FEWEST_SET_ASIDE * SET_ASIDE} or so would do)"
        )

    def evaluate(_iterations: int) -> EvaluationResult:
        version = worker.serve_as(worker.version, context.runtime)  # here, wherever practice samples
        found = evaluate_version(context.runtime, version, tasks, context.purpose(f"{name}/watch"), pool=None)
        context.progress.figure("unseen worlds" if is_unseen else "training tasks", found.rate())
        interval, costs = found.interval(), found.costs()
        return EvaluationResult(
            found.rate(),
            {name: cost.mean for name, cost in costs.items()},
            low=interval.low,
            high=interval.high,
            tasks=len(found.marks),
            measure=measure,
            missing_costs={name: cost.missing for name, cost in costs.items() if cost.missing},
        )

    return evaluate
